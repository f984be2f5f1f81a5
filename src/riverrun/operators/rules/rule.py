"""Rules: what one is, and which are in effect."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from riverrun.durations import END
from riverrun.errors import InputError

FIELDS = ("name", "pattern", "template", "parameters", "metadata")
"""What is said of a rule."""
LARGEST = 2**63
LONGEST_NAME, LONGEST_PATTERN, MOST_BYTES = 255, 16_384, 262_144
"""Of a rule: every page keeps it, and errors show its text."""
TYPES: tuple[tuple[type, str], ...] = (
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    (float, "DOUBLE"),
    (str, "VARCHAR"),
)


@dataclass(frozen=True)
class Rule:
    """One version of a rule."""

    name: str
    text: str
    """The pattern; of a template, as it was when the rule came."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    version: int = 1
    id: int = 0
    """Tells versions of all rules apart: the offset of the command in the control log."""
    begins: int = 0
    """The time of the first rows that it sees."""
    ends: int = END
    """The time from which on it sees none, because there is a newer version, or none any more."""

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """The parameters, with their types in SQL."""
        return tuple((name, type_of(self.parameters[name])) for name in sorted(self.parameters))


def type_of(value: Any) -> str:
    """The type of a parameter's value; empty if it can be none."""
    if isinstance(value, list):
        types = {type_of(each) for each in value}
        types -= {"BIGINT"} if types == {"BIGINT", "DOUBLE"} else set()
        known = len(types) == 1 and types <= {name for _, name in TYPES}
        return f"{types.pop()}[]" if known else ""
    wrong = isinstance(value, float) and not math.isfinite(value)
    wrong = wrong or (isinstance(value, int) and not -LARGEST <= value < LARGEST)
    # any other: no value of a parameter
    return "" if wrong else next((name for kind, name in TYPES if isinstance(value, kind)), "")


def rule_of(given: Mapping[str, Any], templates: Mapping[str, str]) -> Rule:
    """The rule that is described, if its parts can be those of one."""
    _require_small(given)
    name = given.get("name")
    if not isinstance(name, str) or not re.fullmatch(rf"[\w.-]{{1,{LONGEST_NAME}}}", name):
        raise InputError(
            "a rule's name has letters, digits, _ . and -",
            where="name",
            got=shown(name),
            hint=f"at most {LONGEST_NAME}",
        )
    for each in given:
        if each not in FIELDS:
            raise InputError(f"a rule has no {each!r}", hint=f"it has {', '.join(FIELDS)}")
    parameters, metadata = (_mapping(given, part) for part in ("parameters", "metadata"))
    for each, value in parameters.items():
        if not re.fullmatch(r"[A-Za-z]\w*", each) or not type_of(value):
            raise InputError(
                f"the parameter {each!r} cannot be used",
                where="parameters",
                got=shown(value),
                hint="its name begins with a letter from a to z; its value is a text, a number, "
                "true, false, or a list of one of these",
            )
    return Rule(name, _text(given, templates), parameters, metadata, given.get("template"))


def _require_small(given: Mapping[str, Any]) -> None:
    try:
        size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise InputError("a rule is JSON in UTF-8", got=shown(str(error))) from error
    if size > MOST_BYTES:
        raise InputError(f"a rule has at most {MOST_BYTES:,} bytes", got=f"{size:,}")


def _mapping(given: Mapping[str, Any], part: str) -> dict[str, Any]:
    found = given.get(part)
    if found is not None and not isinstance(found, dict):
        raise InputError(f"{part} are names with values", where=part, got=shown(found))
    return found or {}


def _text(given: Mapping[str, Any], templates: Mapping[str, str]) -> str:
    pattern, template = given.get("pattern"), given.get("template")
    if (pattern is None) == (template is None):
        raise InputError("a rule has either a pattern or a template")
    if template is None:
        if not isinstance(pattern, str):
            raise InputError("a pattern is text", where="pattern", got=shown(pattern))
        if len(pattern) > LONGEST_PATTERN:
            raise InputError(
                f"a pattern has at most {LONGEST_PATTERN:,} characters",
                where="pattern",
                got=f"{len(pattern):,}",
            )
        return pattern
    if not isinstance(template, str) or template not in templates:
        raise InputError(
            f"the program has no template {shown(template)}",
            where="template",
            hint=f"it has: {', '.join(templates) or 'none'}",
        )
    return templates[template]


def shown(value: object) -> str:
    """What was given, for an error: some of it if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"


@dataclass(frozen=True)
class RuleSet:
    """The versions that see rows now or later, and the last version of each name there was."""

    rules: tuple[Rule, ...] = ()
    last: Mapping[str, int] = field(default_factory=dict)

    def encoded(self) -> str:
        """Thousands of rules have few texts."""
        texts = list(dict.fromkeys(each.text for each in self.rules))
        number = {text: n for n, text in enumerate(texts)}
        rules = [{**vars(each), "text": number[each.text]} for each in self.rules]
        return json.dumps({"texts": texts, "rules": rules, "last": self.last})

    @classmethod
    def decoded(cls, text: str) -> RuleSet:
        found = json.loads(text)
        texts = found.get("texts")  # in earlier checkpoints each rule has its own
        own = (
            each if texts is None else {**each, "text": texts[each["text"]]}
            for each in found["rules"]
        )
        return cls(tuple(Rule(**each) for each in own), found["last"])

    def without_ended(self, clock: int) -> RuleSet:
        kept = tuple(each for each in self.rules if each.ends > clock)
        return self if len(kept) == len(self.rules) else replace(self, rules=kept)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
