"""`riverrun try`: a program on files, no broker needed."""

from __future__ import annotations

import json

import pytest

PROGRAM = """
import riverrun as rr

app = rr.App("shop")
views = app.stream("views", schema="user string, page string, at timestamp", key="user", time="at")
views.where("page = '/pay'").to("payments")
pages = views.group_by("page", name="pages").window(rr.tumbling("1 minute"), updatable="1 minute")
pages.agg(views=rr.count()).to("per_page")
"""


def view(time, page="/a", user="u"):
    return json.dumps({"user": user, "page": page, "at": f"2026-01-01T{time}Z"})


@pytest.fixture
def attempt(riverrun, tmp_path):
    """Runs the program on lines of input."""
    (tmp_path / "app.py").write_text(PROGRAM)

    def run(*lines, options=()):
        (tmp_path / "views.jsonl").write_text("\n".join(lines) + "\n")
        return riverrun("try", "app.py", "--input", "views=views.jsonl", *options)

    return run


def rows(outcome):
    assert (outcome.code, outcome.err) == (0, "")
    return [json.loads(line) for line in outcome.out.split("\n") if line]


def table_row(op, start, views, revision, page="/a"):
    day, minute = "2026-01-01T12:", int(start[3:])
    window_start = f"{day}{minute:02}:00Z"
    return {
        "output": "per_page",
        "op": op,
        "key": {"page": page, "window_start": window_start},
        "value": {
            "page": page,
            "window_start": window_start,
            "window_end": f"{day}{minute + 1:02}:00Z",
            "views": views,
        },
        "revision": revision,
    }


def test_each_row_is_one_line_of_json(attempt):
    outcome = attempt(
        view("12:00:10"),
        view("12:01:00", "/pay", user="v"),
        "",
        view("12:00:20"),
        view("12:05:00"),
        "",
        view("12:00:30"),
        "oops",
        options=["--json"],
    )
    late = {"user": "u", "page": "/a", "at": "2026-01-01T12:00:30Z"}
    paid = {"user": "v", "page": "/pay", "at": "2026-01-01T12:01:00Z"}
    dead = {
        "topic": "views",
        "partition": 0,
        "offset": 5,
        "timestamp": "1970-01-01T00:00:00Z",
        "step": "decode",
        "cause": "the value is not JSON",
        "key": None,
        "key_base64": None,
        "value": "oops",
        "value_base64": None,
        "headers": None,
        "row": None,
        "cut": None,
    }
    assert rows(outcome) == [
        {"output": "payments", "op": "+", "key": "v", "value": paid, "time": paid["at"]},
        table_row("+", "12:00", 1, 0),
        table_row("-", "12:00", 1, 0),
        table_row("+", "12:00", 2, 1),
        table_row("+", "12:01", 1, 0, "/pay"),
        {"output": "dead", "op": "+", "key": None, "value": dead, "time": dead["timestamp"]},
        {"output": "pages.late", "op": "+", "key": "u", "value": late, "time": late["at"]},
        table_row("+", "12:05", 1, 0),
    ]
    assert list(json.loads(outcome.out.splitlines()[1])) == [
        *("output", "op", "key", "value", "revision")
    ]


def test_people_get_short_lines(attempt):
    assert attempt(view("12:00:00", "/pay")).out.splitlines() == [
        'payments  +  {"user": "u", "page": "/pay", "at": "2026-01-01T12:00:00Z"}',
        'per_page  +  {"page": "/pay", "window_start": "2026-01-01T12:00:00Z", '
        '"window_end": "2026-01-01T12:01:00Z", "views": 1}',
    ]


def test_windows_stay_open_on_request(attempt):
    assert attempt(view("12:00:00"), options=["--open"]).out == ""


def test_without_an_empty_line_all_is_one_batch(attempt):
    outcome = attempt(view("12:05:00"), view("12:00:00"), options=["--json"])
    assert [(r["op"], r["value"]["views"]) for r in rows(outcome)] == [("+", 1), ("+", 1)]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_feed_ends_a_line(sign, attempt):
    page = f"/a{sign}b"
    line = json.dumps(json.loads(view("12:00:00", page=page)), ensure_ascii=False)
    [row] = rows(attempt(line, options=["--json"]))
    assert row["value"]["page"] == page


def test_a_line_may_be_an_envelope(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        "import riverrun as rr\n"
        'app = rr.App("shop")\n'
        'views = app.stream("views", schema="page string")\n'
        'views.select("page", "_key", "_partition", "_offset", t="_timestamp", '
        "from_=\"_headers['from']\").to('all')\n"
    )
    envelope = {"key": "k", "value": {"page": "/a"}, "timestamp": 1_767_268_800_000}
    lines = [
        envelope | {"partition": 2, "headers": {"from": "test"}},
        {"page": "/b"},
        {"value": "text"},
        {"value": None, "key": "gone"},
    ]
    (tmp_path / "in").write_text("\n".join(map(json.dumps, lines)))
    found = rows(riverrun("try", "app.py", "--input", "views=in", "--json"))
    plain = {"_key": None, "_partition": 0, "_offset": 0, "t": "1970-01-01T00:00:00Z"}
    assert [row["value"] for row in found if row["output"] == "all"] == [
        {"page": "/b", **plain, "from_": None},
        {"page": "/a", "_key": "k", "_partition": 2, "_offset": 0, "t": "2026-01-01T12:00:00Z",
         "from_": "test"},
    ]  # fmt: skip
    assert [(row["key"], row["value"]["cause"]) for row in found if row["output"] == "dead"] == [
        (None, "the value is not a JSON object"),
        ("gone", "the value is empty or not UTF-8 text"),
    ]


def test_batches_of_several_topics_go_together(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        "import riverrun as rr\n"
        'app = rr.App("shop")\n'
        'web, phone = (app.stream(t, schema="page string") for t in ("web", "phone"))\n'
        'web.union(phone).group_by("page").agg(n=rr.count()).to("pages")\n'
    )
    (tmp_path / "web").write_text('{"page": "/a"}\n\n{"page": "/a"}\n')
    (tmp_path / "phone").write_text('{"page": "/a"}\n')
    given = ("--input", "web=web", "--input", "phone=phone", "--json")
    found = rows(riverrun("try", "app.py", *given))
    assert [(row["op"], row["value"]["n"]) for row in found] == [("+", 2), ("-", 2), ("+", 3)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["app.py"], "no input is given [RR103]\n  hint: --input views=FILE.jsonl"),
        (["app.py", "--input", "views"], "an input is given as TOPIC=FILE [RR103]\n  got: views"),
        (["app.py", "--input", "clicks=x"], "the program does not read 'clicks' [RR103]"),
        (["app.py", "--input", "views=none"], "an input file cannot be read [RR103]\n  got: none"),
        (["no.py", "--input", "views=x"], "there is no such program [RR103]\n  got: no.py"),
        (["bad.py", "--input", "views=x"], "there is no column 'pgae' [RR101]\n  where: "),
        (["boom.py", "--input", "views=x"], "the program raised ZeroDivisionError [RR103]"),
        (["syntax.py", "--input", "views=x"], "the program raised SyntaxError [RR103]"),
        (["none.py", "--input", "views=x"], "the program makes 0 apps"),
        (
            ["app.py", "--input", "views=odd"],
            "the envelope's timestamp is not a whole number [RR103]\n  where: odd:1",
        ),
    ],
)
def test_a_mistake_is_one_clear_error(arguments, error, riverrun, tmp_path):
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "bad.py").write_text(PROGRAM.replace("page =", "pgae ="))
    (tmp_path / "boom.py").write_text("1 / 0")
    (tmp_path / "syntax.py").write_text("def (")
    (tmp_path / "none.py").write_text("")
    (tmp_path / "odd").write_text('{"value": 1, "timestamp": "noon"}')
    outcome = riverrun("try", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {error}")
