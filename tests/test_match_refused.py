"""Patterns that cannot be: each error says what is wrong, and points at the place in the text."""

from __future__ import annotations

import pytest

import riverrun as rr

HEAD = "PARTITION BY card ORDER BY at"
TAIL = "WITHIN INTERVAL '10' MINUTE DEFINE a AS amount < 1, b AS amount > 5"


def build(text, **options):
    app = rr.App("shop")
    stream = app.stream(
        "payments", schema="card string, amount double, country string, at timestamp", time="at"
    )
    return stream.match(text, **options)


def place(text, **options):
    """The error of a text, its line with the mark, and what is above the mark."""
    with pytest.raises(rr.ProgramError) as caught:
        build(text, **options)
    line, mark = str(caught.value).split("  got: ")[1].split("\n")[:2]
    return caught.value.fact, line[mark.index("^") - 7 :], caught.value.hint


@pytest.mark.parametrize(
    ("text", "fact", "at"),
    [
        (f"{HEAD} PATTERN (a b", "a bracket is not closed", "(a b"),
        (f"{HEAD} PATTERN (a )) {TAIL}", "a bracket closes that was not opened", ") WITHIN"),
        (f"{HEAD} PATTERN (a ? | ) {TAIL}", "a variable is expected", " )"),
        (f"{HEAD} PATTERN (^ a b) {TAIL}", "a stream has no beginning, so ^ can never", "^ a"),
        (f"{HEAD} PATTERN (a{{3,1}} b) {TAIL}", "a quantifier allows nothing", "{3,1}"),
        (f"{HEAD} PATTERN (a? b*) {TAIL}", "the pattern matches without any row", "PATTERN"),
        (f"{HEAD} PATTERN (a | b | a) {TAIL}", "this alternative stands here twice", "a) "),
        (f"{HEAD} PATTERN (a b*?) {TAIL}", "b is never reached", "b*?"),
        (f"{HEAD} PATTERN (a | a b) {TAIL}", "a is never reached", "a b)"),
        (f"{HEAD} PATTERN (x | a | b) {TAIL}", "a is never reached", "a |"),
        (f"{HEAD} PATTERN (a (x | b) a) {TAIL}", "b is never reached", "b)"),
        (f"{HEAD} PATTERN (a b TIMEOUT a) {TAIL}", "a is never reached", "a)"),
        (f"{HEAD} PATTERN (a) {TAIL}", "b is defined, but not in the pattern", "b AS"),
        (f"{HEAD} PATTERN (a b) DEFINE a AS amount < 1", "the pattern has no WITHIN", "^"),
        (f"{HEAD} MEASURES c.amount AS x PATTERN (a b) {TAIL}", "there is no variable 'c'", "c.am"),
        (f"{HEAD} MEASURES a.price AS x PATTERN (a b) {TAIL}", "there is no column 'price'", "a.p"),
        (f"{HEAD} MEASURES amount PATTERN (a b) {TAIL}", "a measure needs a name", " PATTERN"),
        (
            f"{HEAD} MEASURES LAST(amount) AS card PATTERN (a b) {TAIL}",
            "the name 'card' is",
            "card",
        ),
        (
            f"{HEAD} MEASURES a.amount + AS x PATTERN (a b) {TAIL}",
            "an expression cannot be",
            "+ AS x",
        ),
        (
            f"{HEAD} MEASURES random() AS x PATTERN (a b) {TAIL}",
            "random() cannot be used",
            "random",
        ),
        (f"{HEAD} MEASURES LAST(SUM(amount)) AS x PATTERN (a b) {TAIL}", "SUM cannot stand", "SUM"),
        (
            f"{HEAD} MEASURES LAST(a.amount + b.amount) AS x PATTERN (a b) {TAIL}",
            "one value is",
            "b.",
        ),
        (
            f"{HEAD} MEASURES MATCH_NUMBER() AS n PATTERN (a b) {TAIL}",
            "MATCH_NUMBER needs",
            "MATCH_",
        ),
        (f"{HEAD} AFTER MATCH SKIP TO c PATTERN (a b) {TAIL}", "there is no variable 'c'", "c PAT"),
        (
            f"{HEAD} AFTER MATCH SKIP TO FIRST a PATTERN (a b) {TAIL}",
            "a match always begins",
            "a P",
        ),
        (
            f"{HEAD} AFTER MATCH SKIP BACK PATTERN (a b) {TAIL}",
            "AFTER MATCH cannot be read",
            "SKIP",
        ),
        (
            f"{HEAD} ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (a b) {TAIL}",
            "rows that",
            "WITH",
        ),
        (f"{HEAD} PATTERN (a b) PATTERN (b) {TAIL}", "PATTERN is given twice", "PATTERN (b)"),
        (
            f"{HEAD} PATTERN (a b) WITHIN INTERVAL 'x' MINUTE",
            "a duration cannot be read",
            "INTERVAL",
        ),
        (f"{HEAD} PATTERN (a b) WITHIN '1 hour' SUBSET u = (a, z)", "there is no variable", "z)"),
        ("PARTITION BY owner PATTERN (a b) WITHIN '1 hour'", "there is no column 'owner'", "owner"),
        (
            "PARTITION BY card ORDER BY amount PATTERN (a b) WITHIN '1 hour'",
            "rows are matched",
            "am",
        ),
        ("FROM payments PATTERN (a)", "this is not the beginning of a clause", "FROM"),
    ],
)
def test_an_error_points_at_its_place(text, fact, at):
    found, where, _ = place(text)
    assert found.startswith(fact)
    assert where.startswith(at) or at == "^"


@pytest.mark.parametrize(
    ("condition", "fact"),
    [
        ("amount", "a condition must be true or false, not DOUBLE"),
        ("FINAL SUM(amount) > 3", "FINAL is for measures"),
        ("MATCH_NUMBER() > 1", "MATCH_NUMBER is for measures"),
        ("lower(LAST(a.country)) = 'x' OR country = LAST(a.country)", "this cannot be said of"),
        ("country > LAST(a.amount)", "a text is compared with a number"),
        ("median(a.amount) > 3", "a condition cannot have median"),
        ("amount > LAST(a.amount, -1)", "a whole number from 0 to 1000 is expected"),
        ("CLASSIFIER(a) = 'a'", "a condition knows the CLASSIFIER of its own row only"),
        ("PREV(PREV(amount)) > 1", "PREV and NEXT do not stand in each other"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(condition, fact):
    found, _, _ = place(f"{HEAD} PATTERN (a b) WITHIN '1 hour' DEFINE b AS {condition}")
    assert found.startswith(fact)


def test_what_every_row_may_be_does_not_stand_in_the_way_if_later_rows_ask_what_it_was():
    tail = "WITHIN '1 hour' DEFINE a AS amount < 1, b AS amount > COUNT(a.*)"
    step = build(f"{HEAD} PATTERN ((x | a) b) {tail}").node.does
    assert step.matching.automaton.names() == ["x", "b", "a"]


def test_the_diagram_has_each_state_with_its_condition():
    tail = "WITHIN '1 hour' DEFINE b AS amount::int\n > 1 AND country = 'x;y'"
    step = build(f"{HEAD} PATTERN (a b{{2}}) {tail}").node.does
    condition = "amount#58;#58;int #gt; 1 AND country = 'x#59;y'"
    assert step.words().data["automaton"].splitlines() == [
        "stateDiagram-v2",
        '    state "a" as s0',
        "    s0 : any row",
        '    state "b#1" as s1',
        f"    s1 : {condition}",
        '    state "b#2" as s2',
        f"    s2 : {condition}",
        "    s0 --> s1",
        "    s1 --> s2",
        "    s2 --> [*]",
        "    [*] --> s0",
    ]


def test_the_line_and_column_of_a_text_of_several_lines_are_told():
    with pytest.raises(rr.ProgramError) as caught:
        build("""
            PARTITION BY card
            PATTERN (small big)
            WITHIN INTERVAL '1' HOUR
            DEFINE small AS amount < 1,
                   big AS amuont > 500
        """)
    assert str(caught.value.where).endswith("line 6, column 27 of the pattern")
    assert str(caught.value.got) == "big AS amuont > 500\n              ^"
    assert caught.value.hint.startswith("did you mean 'amount'?")


def test_a_pattern_without_bound_is_refused_with_the_reason():
    _, _, hint = place(f"{HEAD} PATTERN (a+) DEFINE a AS amount < 1")
    assert "kept, for ever" in hint


def test_partial_matches_are_there_only_if_they_are_asked_for():
    with pytest.raises(rr.ProgramError, match="no partial matches"):
        build(f"{HEAD} PATTERN (a b) {TAIL}").timed_out  # noqa: B018


def test_words_of_sql_may_be_names_of_columns_and_letters_may_be_large_or_small():
    step = build(f'{HEAD} MEASURES AT AS t, A."at" AS u PATTERN (A b) {TAIL}').node.does
    assert [(each.name, each.type) for each in step.schema.columns] == [
        ("card", "VARCHAR"),
        ("t", "TIMESTAMP"),
        ("u", "TIMESTAMP"),
    ]
