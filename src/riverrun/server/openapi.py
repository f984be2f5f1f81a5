"""What the server does, in OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NO_TEXT: Schema = {"type": ["string", "null"]}
WHOLE: Schema = {"type": ["integer", "null"]}
ROW: Schema = {"type": "object", "description": "columns of the view, by name"}
FRESH: Schema = {
    "revision": {**NO_TEXT, "description": "the batch that the view has come to"},
    "at": {**NO_TEXT, "description": "when that batch was"},
    "clock": {**NO_TEXT, "description": "how far event time has come"},
    "behind": {**WHOLE, "description": "records of the log that it does not hold yet"},
}
VERDICT: Schema = {
    "type": "object",
    "required": ["state", "text"],
    "properties": {
        "state": {"enum": ["there", "waiting", "held", "aside"]}, "text": TEXT, "step": TEXT,
        "until": NO_TEXT, "clock": NO_TEXT,
    },
}  # fmt: skip
FACTS: Schema = {
    "view": TEXT,
    "application": TEXT,
    "key": {"type": "array", "items": TEXT},
    "columns": {"type": "object", "additionalProperties": TEXT},
}
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "fact"],
            "properties": {
                "code": TEXT, "fact": TEXT, "got": NO_TEXT, "hint": NO_TEXT,
                "where": {**NO_TEXT, "description": "the place in what was sent"},
            },
        }
    },
}  # fmt: skip


def described() -> Schema:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "riverrun", "version": version("riverrun"),
            "description": "Views of running programs, and the topics that they read.",
        },
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/views": {"get": _operation("All views, and how fresh each is", _list())},
            "/views/{view}": {"get": _page()},
            "/views/{view}/{key}": {"get": _row()},
            "/views/{view}/changes": {"get": _changes()},
            "/query": {"post": _query()},
            "/ask/{step}": {"post": _ask()},
            "/commands/{kind}/{id}": {"post": _command()},
            **_told("queries", "stored query", QUERY), **_told("rules", "rule", RULE),
            **_alerts(),
            "/topics": {"get": _operation("The topics that are open", _topics())},
            "/topics/{topic}": {
                "get": _operation("A topic", _topic(), parameters=[TOPIC]), "post": _post(),
            },
            "/udp": {"get": _operation("The UDP door, and what it has lost", {"type": "object"})},
            "/metrics": {"get": _metrics()},
            "/healthz": {"get": _operation("Whether the server runs", {"type": "object"})},
            "/readyz": {"get": _ready()},
        },
    }  # fmt: skip


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _operation(summary: str, answer: Schema, **more: Any) -> Schema:
    refused = {"description": "refused", "content": _json({"$ref": "#/components/schemas/Error"})}
    codes = (
        "400", "401", "403", "404", "405", "408", "409", "410", "413", "415", "421", "422", "429",
        "503", "504",
    )  # fmt: skip
    responses = {"200": {"description": "the answer", "content": _json(answer)}}
    return {"summary": summary, "responses": {**responses, **dict.fromkeys(codes, refused)}, **more}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _list() -> Schema:
    each = _object({**FACTS, **FRESH}, "view", "key", "columns", "revision")
    return _object({"views": {"type": "array", "items": each}}, "views")


def _parameter(name: str, where: str, description: str, schema: Schema = TEXT) -> Schema:
    required = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, "description": description, "schema": schema, **required}


VIEW = _parameter("view", "path", "its name", {"type": "string", "minLength": 1})
TOKEN = [
    _parameter("token", "query", "wait until the view holds what gave it"),
    _parameter("wait", "query", "how long, such as 5s; at most a minute"),
]
REVEAL = _parameter(
    "reveal", "query", "read what is personal, for tokens of the scope reveal:VIEW",
    {"type": "boolean"},
)  # fmt: skip
FORGOTTEN = {"forgotten": {"type": "array", "items": TEXT}}


def _row() -> Schema:
    answer = _object({"row": ROW, **FORGOTTEN, **FRESH, "token": VERDICT}, "row", "revision")
    key = _parameter(
        "key", "path", "a column of the key after the other, with slashes between; none of null",
        {"type": "string", "minLength": 1},
    )  # fmt: skip
    names = {"type": "array", "items": TEXT}
    null = _parameter("null", "query", "columns of the key that are null", names)
    return _operation("The row of a key", answer, parameters=[VIEW, key, null, REVEAL, *TOKEN])


def _page() -> Schema:
    rows = {"type": "array", "items": ROW}
    facts = {**FACTS, **FORGOTTEN, **FRESH}
    answer = _object({**facts, "rows": rows, "next": NO_TEXT, "token": VERDICT}, "rows")
    filters = _parameter(
        "filter", "query",
        "a column: a value, or eq. ne. lt. le. gt. ge. before it, in.(a,b), is.null, not.null",
        {"type": "object", "additionalProperties": TEXT},
    )  # fmt: skip
    whole = {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 100}
    return _operation(
        "Rows, page by page", answer,
        parameters=[
            VIEW, {**filters, "style": "form", "explode": True},
            _parameter("order", "query", "columns, - before one that goes down"),
            _parameter("limit", "query", "rows of a page", whole),
            _parameter("after", "query", "`next` of the page before"),
            _parameter("columns", "query", "those that are wanted"), REVEAL, *TOKEN,
        ],
    )  # fmt: skip


def _changes() -> Schema:
    found = _operation(
        "Changes as server-sent events: put and delete, each with the revision", {},
        parameters=[
            VIEW, _parameter("from", "query", "the revision, or the id of an event, to follow"),
            _parameter("Last-Event-ID", "header", "the same, as browsers send it"),
        ],
    )  # fmt: skip
    found["responses"]["200"]["content"] = {"text/event-stream": {"schema": TEXT}}
    return found


def _query() -> Schema:
    rows = {"type": "array", "items": {"type": "array"}}
    answer = _object(
        {"columns": {"type": "array", "items": TEXT}, "rows": rows, "more": {"type": "boolean"}},
        "columns", "rows", "more",
    )  # fmt: skip
    limit = {"type": "integer", "minimum": 1, "default": 1000}
    seconds = {"type": "number", "exclusiveMinimum": 0, "default": 10}
    asked = _object({"sql": TEXT, "limit": limit, "timeout": seconds}, "sql")
    return _operation(
        "SQL over views", answer, requestBody={"required": True, "content": _json(asked)}
    )


TOPIC = _parameter("topic", "path", "its name", {"type": "string", "minLength": 1})


def _topic() -> Schema:
    counts = {each: {"type": "integer"} for each in ("taken", "dropped", "refused", "pushed_back")}
    names = {"type": "array", "items": TEXT}
    return _object(
        {
            "topic": TEXT, "applications": names, "key": names, "received": names,
            "columns": {"type": "object", "additionalProperties": TEXT},
            "when_behind": {"enum": ["buffer", "push back", "drop"]},
            "limit": WHOLE, "lag": WHOLE, **counts,
        },
        "topic", "columns", "when_behind", *counts,
    )  # fmt: skip


def _topics() -> Schema:
    return _object({"topics": {"type": "array", "items": _topic()}, "since": TEXT}, "topics")


def _post() -> Schema:
    record = {"type": "object", "description": "the columns of the topic"}
    fault = _object({"record": {"type": "integer"}, "column": NO_TEXT, "cause": TEXT}, "cause")
    answer = _object(
        {
            "records": {"type": "integer", "description": "how many were written"},
            "token": {**NO_TEXT, "description": "for reads that are to see them"},
            "repeated": {"type": "boolean", "description": "the key was used before"},
            "unknown_columns": {"type": "array", "items": TEXT},
            "refused": {"type": "integer"}, "dropped": {"type": "integer"},
            "errors": {"type": "array", "items": fault},
        },
        "records",
    )  # fmt: skip
    several = {"oneOf": [record, {"type": "array", "items": record, "minItems": 1}]}
    lines = {"application/x-ndjson": {"schema": {**TEXT, "description": "one on each line"}}}
    partial = _parameter("partial", "query", "write those that fit", {"type": "boolean"})
    key = _parameter(
        "Idempotency-Key", "header", "of this request and its repeats",
        {"type": "string", "pattern": "^[!-~]{1,255}$"},
    )  # fmt: skip
    found = _operation(
        "Write a record, or several together", answer, parameters=[TOPIC, partial, key],
        requestBody={"required": True, "content": {**_json(several), **lines}},
    )  # fmt: skip
    found["responses"]["202"] = {**found["responses"]["200"], "description": "some were dropped"}
    return found


def _command() -> Schema:
    """What a command is, its application decides: docs/event-sourcing.md."""
    seconds = {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 30}
    asked = _object(
        {
            "type": TEXT, "data": {"type": "object"}, "id": TEXT, "version": {"type": "integer"},
            "by": TEXT, "timeout": seconds,
        },
        "type",
    )  # fmt: skip
    named = {"type": "string", "minLength": 1}
    return _operation(
        "A command to an aggregate, and what became of it", {"type": "object"},
        parameters=[
            _parameter("kind", "path", "KIND or APP.KIND", named),
            _parameter("id", "path", "the aggregate", named),
        ],
        requestBody={"required": True, "content": _json(asked)},
    )  # fmt: skip


STEP = _parameter("step", "path", "APP.STEP", {"type": "string", "minLength": 1})
WAIT = _parameter("wait", "query", "for the job's answer, such as 5s; at most a minute")
NAMES: Schema = {"type": "object", "description": "names with values"}
QUERY = {"query": TEXT, "where": TEXT, "owner": TEXT, "metadata": NAMES}
RULE = {"pattern": TEXT, "template": TEXT, "parameters": NAMES, "metadata": NAMES}
KNOWN = _object(
    {
        "name": TEXT, "version": WHOLE, "offset": {"type": "integer"},
        "state": {"enum": ["in effect", "refused", "removed", "ended", "not answered"]},
        "effective": {**NO_TEXT, "description": "the time of the first rows that it sees"},
        "asked": {"type": "object"}, "refused": {"type": ["object", "null"]},
    },
    "name", "state", "asked",
)  # fmt: skip


def _told(word: str, noun: str, parts: Schema) -> Schema:
    """What they are made of is told by docs/search-streams.md and docs/rules.md."""
    size = {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 100}
    listed = _object({word: {"type": "array", "items": KNOWN}, "next": NO_TEXT}, word, "next")
    name = _parameter("name", "path", "its name", {"type": "string", "minLength": 1})
    one, waiting = [STEP, name], [STEP, name, WAIT]
    content = {"required": True, "content": _json(_object(parts))}
    put = _operation(f"Add a {noun}, or change it", KNOWN, parameters=waiting, requestBody=content)
    remove = _operation(f"Remove a {noun}", KNOWN, parameters=waiting)
    paging = [
        _parameter("limit", "query", "how many", size),
        _parameter("after", "query", "`next` of the page before"),
        _parameter("all", "query", "also what is removed or refused", {"type": "boolean"}),
    ]
    return {
        f"/{word}/{{step}}": {
            "get": _operation(f"What stands at a step: each {noun}", listed,
                              parameters=[STEP, *paging]),
        },
        f"/{word}/{{step}}/{{name}}": {
            "get": _operation(f"A {noun}", KNOWN, parameters=one),
            "put": _later(put), "delete": _later(remove),
        },
    }  # fmt: skip


def _later(operation: Schema) -> Schema:
    """What no job has answered, since none runs."""
    later = {**operation["responses"]["200"], "description": "it is answered when the job runs"}
    return {**operation, "responses": {**operation["responses"], "202": later}}


def _alerts() -> Schema:
    listed = {"type": "array", "items": {"type": "object"}}
    texts = {"by": TEXT, "comment": TEXT}
    matchers = {"type": "array", "items": TEXT, "minItems": 1}
    said: dict[str, tuple[str, Schema]] = {
        "ack": ("Acknowledge an alert", _object({"alert": TEXT, **texts}, "alert")),
        "silence": (
            "Tell nothing of groups for a time",
            _object({"matchers": matchers, "lasts": TEXT, **texts}, "matchers"),
        ),
        "unsilence": ("End a silence", _object({"id": TEXT}, "id")),
    }
    answer = _object({"in_effect": {"type": "boolean"}}, "in_effect")
    ways = {
        f"/alerts/{{step}}/{word}": {"post": _later(_operation(
            summary, answer, parameters=[STEP, WAIT],
            requestBody={"required": True, "content": _json(schema)},
        ))}
        for word, (summary, schema) in said.items()
    }  # fmt: skip
    all_ = _object({"alerts": listed, "silences": listed}, "alerts", "silences")
    found = _operation("The alerts of a step, and the silences", all_, parameters=[STEP])
    return {"/alerts/{step}": {"get": found}, **ways}


def _metrics() -> Schema:
    found = _operation("Figures of the applications and of the server, for Prometheus", {})
    kinds = ("text/plain", "application/openmetrics-text")
    found["responses"]["200"]["content"] = {kind: {"schema": TEXT} for kind in kinds}
    return found


def _ready() -> Schema:
    why = {"type": ["array", "null"], "items": _object({"what": TEXT, "why": TEXT}, "what", "why")}
    answer = _object({"ready": {"type": "boolean"}, "reasons": why}, "ready")
    found = _operation("Whether all is well, and if not, why not", answer)
    found["responses"]["503"] = {**found["responses"]["200"], "description": "not all is well"}
    return found


def _ask() -> Schema:
    """What the answer is made of is told by docs/ask.md."""
    seconds = {"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 10}
    asked = _object({"sql": TEXT, "timeout": seconds}, "sql")
    return _operation(
        "SQL over what a step of a running application keeps", {"type": "object"},
        parameters=[STEP],
        requestBody={"required": True, "content": _json(asked)},
    )  # fmt: skip
