"""Alerts that cannot be: what is wrong is refused at its line, or changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import riverrun as rr
from failing import driver, fail, program, standing, told
from riverrun.alerting import Alerts
from riverrun.cli import alerts
from riverrun.errors import InputError, ProgramError
from riverrun.operators.alert.silences import Matcher, length_of, matcher_of


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": 1, "matchers": [["service", "=", "pay"]], "until": 2**60},
        {"id": "x", "matchers": [["service", "=~", "("]], "until": 2**60},
        {"id": "x", "matchers": [["service", "like", "pay"]], "until": 2**60},
        {"id": "x", "matchers": [], "until": 2**60},
        {"id": "x", "matchers": [["service"]], "until": 2**60},
        {"id": "x", "matchers": "service=pay", "until": 2**60},
        {"id": "x", "matchers": [["service", "=", "pay"]], "until": "tomorrow"},
        {"id": "x", "matchers": [["service", "=", "p" * 2000]], "until": 2**60},
        {"id": "x", "matchers": [["region", "=", ""]], "until": 2**60},
    ],
)
def test_a_silence_that_cannot_be_read_silences_nothing(body):
    one = driver(wait="0 seconds")
    one.control("silence alerts", "failing", **body)
    one.control("acknowledge alert", "failing")
    assert told(fail(one, "pay")) == [("pay", "firing", 1)]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"title": "{servise} fails"}, "the template of title names 'servise', which is no column"),
        ({"text": "{service.upper}"}, "the template of text names 'service.upper'"),
        ({"title": "{service!r}"}, "a name in the template of title has no conversion"),
        ({"title": "{}"}, "names '', which is no column"),
        ({"title": "{service"}, "the template of title cannot be read"),
        ({"title": "{ms:{n}}"}, "a format that no value has"),
        ({"title": "{ms:zz}"}, "a format that no value has"),
        ({"group_by": "region"}, "there is no column 'region'"),
        ({"group_by": []}, "alert needs at least one column"),
        ({"group_by": ["service", "service"]}, "is given twice"),
        ({"resolve": "ms"}, "a condition must be true or false"),
        ({"resolve": "mss = 0"}, "there is no column 'mss'"),
        ({"resolve_after": "10 seconds"}, "resolve_after is not shorter than wait"),
        ({"resolve_after": "10 minutes", "of": "table"}, "resolve_after is for streams"),
        ({"repeat": "0 seconds"}, "repeat is above zero"),
        ({"wait": "soon"}, "a duration cannot be read"),
        ({"escalate": [("1 minute", "ann@example.com")]}, "alerts go to a channel"),
        ({"escalate": [rr.alerts.topic("x")]}, "escalate is a list of times and channels"),
        ({"escalate": [("2 minutes", rr.alerts.topic("x")), ("1 minute", rr.alerts.topic("y"))]},
         "escalate is in the order of its times"),
        ({"escalate": [("1 minute", rr.alerts.topic("x"))] * 2}, "is given twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_at_its_line(options, fact):
    with pytest.raises(ProgramError, match=fact) as raised:
        program(**options)
    at = raised.value.where
    assert ".alert(" in Path(at.file).read_text().splitlines()[at.line - 1]


def test_a_group_cannot_have_the_columns_of_a_notification():
    rows = rr.App("shop").stream("rows", schema="kind string, Title string")
    for column in ("kind", "Title"):
        with pytest.raises(ProgramError, match=f"a column with the name '{column}'"):
            rows.alert(group_by=column)


@pytest.mark.parametrize(
    ("made", "fact"),
    [
        (lambda: rr.alerts.webhook("host/path"), "a webhook is an address"),
        (lambda: rr.alerts.webhook("http://a b/"), "a webhook is an address"),
        (lambda: rr.alerts.webhook("https://host", timeout="0 seconds"), "a time to answer"),
        (lambda: rr.alerts.webhook("https://host", headers={"Idempotency-key": "x"}), "the key of"),
        (lambda: rr.alerts.webhook("https://me:secret@host"), "holds a password"),
        (lambda: rr.alerts.webhook("https://host", headers={"A": "b\nC: d"}), "a header has"),
        (lambda: rr.alerts.webhook("https://host", headers={"A:": "b"}), "a header has"),
        (lambda: rr.alerts.email([]), "email needs somebody"),
        (lambda: rr.alerts.email("ann"), "an address of mail"),
        (lambda: rr.alerts.email("ann@example.com\nBcc: eve@example.com"), "an address of mail"),
        (lambda: rr.alerts.email("ann@example.com, bob@example.com"), "an address of mail"),
        (lambda: rr.alerts.email("ann@example.com", sender="x"), "an address of mail"),
        (lambda: rr.alerts.topic("a b"), "a topic's name"),
        (lambda: rr.alerts.sse("1"), "the name of a view"),
    ],
)
def test_a_channel_that_cannot_be_is_refused(made, fact):
    with pytest.raises(ProgramError, match=fact):
        made()


def test_no_channel_shows_a_secret():
    hook = rr.alerts.webhook("https://host:81/a?token=x", headers={"Authorization": "y"})
    app = program(hook)
    shown = repr([hook, app.outputs])
    assert hook.name == "webhook https://host:81/a"
    assert "token" not in shown
    assert "Authorization" not in shown


def test_a_matcher_is_a_column_and_what_it_has_to_be():
    assert matcher_of("service=a=b") == Matcher("service", "=", "a=b")
    assert matcher_of("service!=") == Matcher("service", "!=", "")
    assert matcher_of("service=~a|b") == Matcher("service", "=~", "a|b")
    assert matcher_of("service!~\n") == Matcher("service", "!~", "\n")
    for wrong in ("service", "=pay", "", "service!pay", "service==pay", "service!==pay"):
        with pytest.raises(InputError, match="a matcher cannot be read"):
            matcher_of(wrong)
    for wrong in ("(", "a)|(b", "(?=a)", "\\"):
        with pytest.raises(InputError, match="the pattern of a matcher cannot be read"):
            matcher_of(f"service=~{wrong}")
    slow = matcher_of("service=~(a+)+")
    assert not slow.holds({"service": "a" * 5_000 + "!"})
    assert not matcher_of("service=~a|b").holds({"service": "ab"})
    assert not matcher_of("service=~a").holds({"service": "a\n"})


def test_a_silence_lasts_for_a_time():
    assert length_of("2 seconds") == 2_000_000
    with pytest.raises(InputError, match="a silence lasts for a time"):
        length_of("0 seconds")


@pytest.mark.parametrize(
    ("effect", "running", "said"),
    [(True, True, "ended\n"), (False, True, "ended, with its next batch\n"),
     (False, False, "ended, when the application runs next\n")],
)  # fmt: skip
def test_people_are_told_when_what_they_said_is_in_effect(monkeypatch, effect, running, said):
    class Known:
        def __init__(self, application, brokers):
            self.running = running

        def unsilence(self, number):
            return effect

    monkeypatch.setattr(alerts, "Alerts", Known)
    told = CliRunner().invoke(alerts.command, ["unsilence", "shop", "9f86d081"])
    assert told.output == f"silence 9f86d081: {said}"


def test_odd_letters_in_what_people_say_stop_nothing():
    one = driver(wait="0 seconds")
    fail(one, "pay")
    [(alert,)] = standing(one, "alert")
    one.control("acknowledge alert", "failing", alert=alert, by="ann \ud800", comment="\x00\ud83d")
    one.control("silence alerts", "failing", id="\ud800", until=2**60, by="\ud800",
                matchers=[["service", "=~", "\ud800"], ["service", "=", "\ud800"]])  # fmt: skip
    assert told(one.batch(), "kind", "by") == [("acknowledged", "ann ?")]


def test_an_application_that_is_not_known_is_named_in_the_error():
    with pytest.raises(InputError, match="nothing is known of the application 'nowhere'"):
        Alerts("nowhere")
