"""DuckDB as the evaluator of expressions: checked when a program is built, run over whole lots."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from riverrun.errors import JobError, Location, ProgramError
from riverrun.formats.query import NONE, Queries, Values, in_order
from riverrun.kernels.functions import Calls, Function
from riverrun.schema import UNFIT, Schema, first_line, literal, schema_of

CLOCK_WORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
MISTAKEN = ("current_localtime", "current_localtimestamp")
"""Functions of the wall clock that DuckDB's catalogue calls consistent. So is age() of one time,
which is the time until today."""
UNSTABLE = "its result changes from run to run, so a replay would differ"
AGGREGATES = "it aggregates; use .agg()"
PUBLIC = "public"
"""What is computed inside of it from personal values is not personal: the program says so."""

MOST = 20_000
_types: dict[tuple[str, Schema], str] = {}
"""Types that were asked for: thousands of rules name the same columns."""


class Evaluator:
    """One DuckDB connection. Queries name their input relations as tables, and may call the
    functions that are given."""

    def __init__(self, functions: tuple[Function, ...] = ()) -> None:
        self.connection = in_order()
        self.calls = Calls(functions)
        self.calls.install(self.connection)
        declare_public(self.connection)
        self.queries = Queries(self.connection)

    def run(self, query: str, values: Values = NONE, **tables: pa.Table) -> pa.Table:
        """`values` are those of the query's parameters."""
        self.calls.error = None
        try:
            return self.queries.run(query, values, tables)
        except duckdb.Error as error:
            raise (self.calls.taken() or error) from error

    def checked(self, query: str, rows: pa.Table, line: str, *, values: Values = NONE) -> pa.Table:
        """Changes of a table cannot be set aside: an expression that fails on one stops the job."""
        try:
            return self.run(query, values, rows=rows)
        except duckdb.Error as error:
            raise JobError(
                "an expression fails on a row",
                where=line,
                got=first_line(error),
                hint="make it total, e.g. with TRY_CAST or CASE",
            ) from error


@lru_cache(maxsize=8)
def shared_evaluator(functions: tuple[Function, ...] = ()) -> Evaluator:
    """The one of this process for a program's functions."""
    return Evaluator(functions)


@cache
def _functions() -> Mapping[str, str]:
    """Function name to why it cannot stand in an expression ('' when it can)."""
    asked = "SELECT function_name, function_type, stability FROM duckdb_functions()"
    rows = _checker().execute(asked)
    reasons: dict[str, str] = {}
    for name, kind, stability in rows.fetchall():
        if kind == "aggregate":
            reasons.setdefault(name, AGGREGATES)
        elif stability in ("VOLATILE", "CONSISTENT_WITHIN_QUERY") and name != "error":
            reasons[name] = UNSTABLE
    for name in ("list", "first", "last", "min", "max", "sum", "count"):
        reasons[name] = AGGREGATES
    for name in ("unnest", "generate_subscripts"):
        reasons[name] = "an expression sees one row and gives one value; use .explode(…)"
    return {**reasons, **dict.fromkeys(MISTAKEN, UNSTABLE)}


@cache
def _macros() -> Mapping[str, tuple[str, ...]]:
    """What macros are short for: the catalogue tells nothing else of them."""
    rows = _checker().execute(
        "SELECT function_name, macro_definition FROM duckdb_functions() "
        "WHERE function_type = 'macro'"
    )
    found: dict[str, tuple[str, ...]] = {}
    for name, definition in rows.fetchall():
        found[name] = (*found.get(name, ()), definition)
    return found


@cache
def _checker() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone='UTC'")
    declare_public(connection)
    return connection


def declare_public(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(f"CREATE TEMP MACRO {PUBLIC}(x) AS x")


def type_of(expression: str, schema: Schema, where: object) -> str:
    """The expression's type over the columns, or an error that says what is wrong with it."""
    visible = where.visible if isinstance(where, Location) else {}
    text, key = expression.lower(), (expression, schema)
    if any(name in text for name in visible):  # functions of one name may be two
        return _type_of(expression, schema, where, visible)
    if key not in _types:
        found = _type_of(expression, schema, where, {})
        if len(_types) >= MOST:
            _types.clear()
        _types[key] = found
    return _types[key]


def _type_of(
    expression: str, schema: Schema, where: object, visible: Mapping[str, Function]
) -> str:
    called = _refuse_unstable(expression, where)
    own = [visible[name] for name in sorted(called & visible.keys())]
    try:
        with _knowing(own):
            found = _bound(expression, schema)
    except duckdb.Error as error:
        raise _explained(error, expression, schema, where) from error
    if found.startswith("TUPLE"):
        raise ProgramError(
            "an expression gives more than one value",
            where=where,
            got=expression,
            hint="give each expression as an argument of its own",
        )
    return found


def _bound(expression: str, schema: Schema) -> str:
    # a subquery has no columns but those of the schema, and no name
    query = f"SELECT ({expression}) AS result FROM (FROM checked)"
    checker = _checker()
    checker.execute(f"CREATE OR REPLACE TEMP TABLE checked ({schema.ddl()})")
    rows = checker.execute(f"DESCRIBE {query}").fetchall()
    # some constants, such as patterns, are looked at only when it runs
    checker.execute(query)
    return str(rows[0][1])


def value_type(expression: str, schema: Schema, where: object) -> str:
    """The same of one whose values travel."""
    found = type_of(expression, schema, where)
    if re.search(UNFIT, found):
        raise ProgramError(
            "an expression gives a value that cannot be kept",
            where=where,
            got=f"{expression} is {found}",
            hint="use it inside of an expression, or cast it, e.g. to varchar",
        )
    return found


def _explained(error: duckdb.Error, expression: str, schema: Schema, where: object) -> ProgramError:
    message = first_line(error)
    if 'Referenced column "' in message:
        name = message.split('"')[1]
        return ProgramError(
            f"there is no column {name!r}",
            where=where,
            got=expression,
            hint=schema.suggestion(name),
        )
    if "Function with name" in message and "does not exist" in message:
        return ProgramError(
            "an expression calls a function that is not there",
            where=where,
            got=f"{expression!r}: {message}",
            hint="one of your own, made with @rr.function, is to be defined or imported in the "
            "module of the expression",
        )
    return ProgramError(
        "an expression cannot be evaluated",
        where=where,
        got=f"{expression!r}: {message}",
        hint=f"{schema.suggestion('')}; a column whose name is an SQL word needs double quotes",
    )


@contextmanager
def _knowing(functions: Iterable[Function]) -> Iterator[None]:
    """While expressions that call them are checked."""
    known = Calls(functions)
    known.install(_checker())
    try:
        yield
    finally:
        for each in known.functions:
            _checker().remove_function(each.name)


def is_free(name: str) -> bool:
    """Whether a function may have the name: neither DuckDB nor one of its extensions has it."""
    known = "SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?)"
    if _checker().execute(known, [name]).fetchall() != [(0,)]:
        return False
    try:
        _checker().create_function(name, lambda x: x, ["BIGINT"], "BIGINT")
        _checker().remove_function(name)
        return any(node.get("class") == "FUNCTION" for node in _nodes(f"SELECT {name}(a)"))
    except duckdb.Error:
        return False


def _refuse_unstable(expression: str, where: object) -> frozenset[str]:
    """The names of the functions that it calls."""
    parsed = _parsed(expression)
    if parsed.statements != 1:
        raise ProgramError("an expression is more than one statement", where=where, got=expression)
    for name, reason in parsed.refused:
        raise ProgramError(
            f"{name} cannot be used in an expression", where=where, got=expression, hint=reason
        )
    return parsed.functions


class Parsed(NamedTuple):
    """What an expression is made of."""

    statements: int
    functions: frozenset[str] = frozenset()
    refused: tuple[tuple[str, str], ...] = ()
    """What cannot stand in an expression, and why."""


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> Parsed:
    query = f"SELECT ({expression})"
    try:
        statements = len(_checker().extract_statements(query))
    except duckdb.Error:
        return Parsed(1)  # a syntax error: DESCRIBE says where it is
    if statements != 1:
        return Parsed(statements)
    nodes = list(_nodes(query))
    functions = [str(n["function_name"]).lower() for n in nodes if n.get("class") == "FUNCTION"]
    refused = tuple((_name(node), reason) for node in nodes if (reason := _reason(node)))
    return Parsed(1, frozenset(functions), refused)


def _nodes(query: str) -> Iterator[dict[str, Any]]:
    serialized = _checker().execute(f"SELECT json_serialize_sql({literal(query)})")
    return _walk(json.loads(serialized.fetchall()[0][0]))


def _name(node: dict[str, Any]) -> str:
    if "column_names" in node:
        return str(node["column_names"][-1])
    if node.get("class") == "STAR":
        return "*"
    if node.get("class") == "POSITIONAL_REFERENCE":
        return f"#{node['index']}"
    return f"{node['function_name']}()" if "function_name" in node else "a subquery"


def _reason(node: dict[str, Any]) -> str:
    """Why a node cannot stand in an expression; empty if it can."""
    if node.get("class") == "SUBQUERY":
        return "an expression sees one row; use a join or an aggregate step"
    if node.get("class") == "STAR":
        return "an expression gives one value; name its columns one by one"
    if node.get("class") == "WINDOW":
        return "an expression sees one row; use .window(…).agg(…)"
    if node.get("class") == "POSITIONAL_REFERENCE":
        return "an expression names its columns"
    if node.get("class") == "COLUMN_REF" and node["column_names"][-1].lower() in CLOCK_WORDS:
        return UNSTABLE
    if node.get("class") == "FUNCTION" and not node.get("is_operator"):
        name = str(node["function_name"]).lower()
        given = len(node["arguments"]) + (_chained(node) is not None)  # `at.age()` is `age(at)`
        until_today = name == "age" and given < 2
        return UNSTABLE if until_today else _functions().get(name) or _inside(name)
    return ""


@cache
def _inside(macro: str) -> str:
    """Why what a macro is short for cannot stand in an expression."""
    for definition in _macros().get(macro, ()):
        for node in _nodes(f"SELECT ({definition})"):
            itself = node.get("function_name") == macro  # with fewer arguments
            if not itself and (reason := _reason(node)):
                return reason
    return ""


def _chained(node: dict[str, Any]) -> str | None:
    """The column of `email.upper()`, or of `person.email.upper()`: it looks like a schema."""
    first = str(node["catalog"] or node["schema"]).lower()
    return None if first in ("", "main", "system") else first


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item)


class Names(NamedTuple):
    """The columns that an expression names, in lower case."""

    every: frozenset[str]
    values: frozenset[str]
    """Without those of which it only asks whether they are null."""
    private: frozenset[str]
    """Those of `values` that stand outside of `public(…)`."""


@lru_cache(maxsize=1024)
def names_in(expression: str) -> Names:
    serialized = _checker().execute(
        f"SELECT json_serialize_sql({literal(f'SELECT ({expression})')})"
    )
    return Names(*map(frozenset, _names(json.loads(serialized.fetchall()[0][0]), public=False)))


def _names(value: Any, *, public: bool) -> tuple[set[str], set[str], set[str]]:
    every, values, private = set[str](), set[str](), set[str]()
    if isinstance(value, dict) and value.get("class") == "COLUMN_REF":
        name = {value["column_names"][0].lower()}
        return name, name, set() if public else name
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    function = isinstance(value, dict) and value.get("class") == "FUNCTION"
    inside = public or (function and value["function_name"].lower() == PUBLIC)
    if function and (column := _chained(value)) is not None:
        every, values, private = {column}, {column}, set() if inside else {column}
    for each in parts:
        found = _names(each, public=inside)
        every |= found[0]
        values |= found[1]
        private |= found[2]
    if isinstance(value, dict) and _asks_for_null(value):
        return every, set(), set()
    return every, values, private


def _asks_for_null(node: dict[str, Any]) -> bool:
    """Of a column: that of an expression tells something of values."""
    null = node.get("type") in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")
    return null and node["children"][0].get("class") == "COLUMN_REF"


TAKING = frozenset({"->", "->>", "json_extract", "json_extract_string", "json_extract_path_text"})


@lru_cache(maxsize=1024)
def takes_only(expression: str) -> bool:
    """Whether an expression only takes values out of JSON, and computes nothing with them."""
    nodes = [each for each in _nodes(f"SELECT ({expression})") if "class" in each]
    return all(map(_takes, nodes))


def _takes(node: dict[str, Any]) -> bool:
    match node["class"]:
        case "FUNCTION":
            return node["function_name"] in TAKING
        case "OPERATOR":  # what a field is that is missing
            return bool(node["type"] == "OPERATOR_COALESCE")
        case "COLUMN_REF" | "CONSTANT" | "CAST" | "TYPE":
            return True
        case _:  # any other: it computes, or may
            return False


def schema_after(query: str, schema: Schema) -> Schema:
    """The columns that `query` over the relation `checked` gives."""
    checker = _checker()
    checker.execute(f"CREATE OR REPLACE TEMP TABLE checked ({schema.ddl()})")
    rows = checker.execute(f"DESCRIBE {query}").fetchall()
    return schema_of([(row[0], row[1]) for row in rows])
