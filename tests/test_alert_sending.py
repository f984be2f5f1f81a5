"""What is sent of a notification: to a real server of mail, and to addresses."""

from __future__ import annotations

import pytest

import riverrun as rr
from hooks import Answer, hooks
from mails import Mails, receiving
from riverrun.alerts.outbox import Addressed, Outbox
from riverrun.alerts.sending import Mailing, Posting
from riverrun.alerts.waiting import Queue, Waiting, newest
from riverrun.config import load
from riverrun.config_tables import Smtp
from riverrun.errors import ConfigError
from riverrun.runtime.alerting import note_of, require
from riverrun.testing import Driver

__all__ = ["hooks"]

BOX = Outbox("shop.failing.told", step="failing", keys=("service",))


def note(**given):
    return {
        "service": "pay", "alert": "5b0cf1", "key": "5b0cf1-2", "kind": "firing", "level": 0,
        "n": 3, "since": "2026-01-01T12:00:00Z", "at": "2026-01-01T12:01:00Z",
        "title": "pay fails", "text": "it is slow", "by": None, "comment": None,
        "row": '{"service":"pay","ms":7}', **given,
    }  # fmt: skip


def mailing(mails, *to, **settings):
    smtp = Smtp(**{"host": "127.0.0.1", "port": mails.port, "security": "none", **settings})
    channel = rr.alerts.email(to or "ops@example.com", sender="riverrun@example.com")
    return Mailing("shop", BOX, channel, smtp)


def test_a_message_has_the_key_of_its_notification_and_is_one_thread_with_its_group():
    with receiving(Mails()) as mails:
        one = mailing(mails, "ann@example.com", "bob@example.com")
        title, text = "Zahlung schlägt fehl: ≥ 3× 💥", "größer als\n.\nsonst 💥"
        assert one.send(note(title=title, text=text)) is None
        assert one.send(note(key="5b0cf1-3", kind="resolved", by="ann", comment="fixed")) is None
    first, second = mails.seen
    assert first["Subject"] == f"[firing] {title}"
    assert first["Message-ID"] == "<5b0cf1-2@example.com>"
    assert mails.keys() == ["5b0cf1-2", "5b0cf1-3"]
    assert first["References"] == second["References"] == "<5b0cf1@example.com>"
    assert first["To"] == "ann@example.com, bob@example.com"
    assert mails.people[0] == ["ann@example.com", "bob@example.com"]
    assert first["Auto-Submitted"] == "auto-generated"
    body = first.get_content().replace("\r\n", "\n")
    assert body.startswith(text)
    assert "3 rows since 2026-01-01T12:00:00Z; shop failing" in body
    assert body.endswith("riverrun alerts ack shop 5b0cf1\n")
    assert "acknowledged by ann: fixed" in second.get_content()


@pytest.mark.parametrize("over", [{"kind": "acknowledged", "by": "ann"}, {"kind": "resolved"}])
def test_nobody_is_asked_to_acknowledge_what_is_acknowledged_or_over(over):
    with receiving(Mails()) as mails:
        assert mailing(mails).send(note(**over)) is None
    assert "alerts ack" not in mails.seen[0].get_content()


def test_a_title_cannot_add_headers_or_people():
    with receiving(Mails()) as mails:
        title = "x\r\nBcc: eve@example.com\n\nhello \x00 \u2028 y"
        assert mailing(mails).send(note(title=title)) is None
    [message] = mails.seen
    assert message["Bcc"] is None
    assert "Bcc: eve@example.com" in message["Subject"]
    assert mails.people == [["ops@example.com"]]
    assert message.get_content().startswith("it is slow")


def test_a_long_text_arrives_whole():
    with receiving(Mails()) as mails:
        text = "long " * 2_000
        assert mailing(mails).send(note(text=text, title="ü" * 200)) is None
    assert text in mails.seen[0].get_content()
    assert mails.seen[0]["Subject"] == f"[firing] {'ü' * 200}"


def test_who_may_take_it_later_is_asked_again_and_who_never_will_is_not():
    with receiving(Mails(lambda message: "451 busy")) as mails:
        assert mailing(mails).send(note()) == ("451 busy", True)
        mails.answer = lambda message: "554 spam"
        assert mailing(mails).send(note()) == ("554 spam", False)
        mails.answer = lambda message: "250 OK"
        mails.refused = {"bob@example.com": "550 no such person"}
        refused = "bob@example.com: 550 no such person"
        assert mailing(mails, "bob@example.com").send(note()) == (refused, False)
        # the others have it
        both = mailing(mails, "ann@example.com", "bob@example.com")
        assert both.send(note()) == (refused, False)
        assert mails.people == [["ann@example.com"]]
        mails.refused = {"bob@example.com": "450 later"}
        assert mailing(mails, "bob@example.com").send(note()).again
        assert mailing(mails, security="starttls", user="u", password="p").send(note()).again
    away = mailing(mails).send(note())
    assert away.again
    assert "refused" in away.cause


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_password_is_needed_where_it_is_asked_for():
    with receiving(Mails(password="right")) as mails:
        assert mailing(mails, user="me", password="right").send(note()) is None
        wrong = mailing(mails, user="me", password="wrong").send(note())
        assert (wrong.again, wrong.cause[:3]) == (True, "535")
        assert "wrong" not in wrong.cause


def test_a_post_has_the_notification_with_its_row_and_its_key(hooks):
    channel = rr.alerts.webhook(hooks.url, headers={"Authorization": "Bearer x"})
    posting = Posting("shop", BOX, channel)
    assert posting.send(note()) is None
    [seen] = hooks.seen
    assert seen.key == "5b0cf1-2"
    assert seen.headers["Authorization"] == "Bearer x"
    told = {n: value for n, value in note().items() if n not in ("service", "row")}
    where = {"application": "shop", "step": "failing", "group": {"service": "pay"}}
    assert seen.body == {**where, **told, "row": {"service": "pay", "ms": 7}}
    hooks.answer = lambda seen, before: Answer(503, "busy")
    assert posting.send(note()) == ("HTTP 503: busy", True)
    hooks.answer = lambda seen, before: Answer(400, "what?")
    assert posting.send(note()) == ("HTTP 400: what?", False)


def test_who_was_away_is_told_how_each_group_stands_in_order():
    told = [("a", 1), ("b", 1), (None, 1), ("a", 2), ("c", 1), ("b", 2)]
    waiting = [Waiting(0, n, {"service": s, "key": k}) for n, (s, k) in enumerate(told)]
    left = [(each.note["service"], each.note["key"]) for each in newest(waiting, ("service",))]
    assert left == [(None, 1), ("a", 2), ("c", 1), ("b", 2)]


def test_those_who_are_called_later_hear_of_all_that_follows():
    kinds = [("firing", 0), ("escalated", 1), ("more", 1), ("escalated", 2), ("resolved", 2)]
    channel = rr.alerts.topic("x")
    heard = {
        level: [kind for kind, at in kinds if Addressed(level, channel).wants(kind, at)]
        for level in range(3)
    }
    assert heard == {
        0: ["firing", "more", "resolved"],
        1: ["escalated", "more", "resolved"],
        2: ["escalated", "resolved"],
    }


def test_the_settings_of_mail_are_checked(tmp_path):
    file = tmp_path / "riverrun.toml"

    def smtp(text, **environ):
        file.write_text(text)
        return load(tmp_path, environ).smtp

    assert smtp("") is None
    secret = {"RIVERRUN_SMTP_PASSWORD": "secret"}
    found = smtp('[smtp]\nhost = "mail.example.com"\nuser = "me"', **secret)
    assert found == Smtp("mail.example.com", 587, "starttls", "me", "secret")
    assert "secret" not in repr(found)
    for wrong, fact in [
        ("[smtp]\nport = 25", "mail needs a server"),
        ('[smtp]\nhost = "x"\nport = "25"', "a setting of mail cannot be read"),
        ('[smtp]\nhost = "x"\nsecurity = "ssl"', "a setting of mail cannot be read"),
        ('[smtp]\nhost = "x"\npasword = "y"', "unknown setting 'pasword'"),
        ("smtp = 5", "'smtp' is a table"),
    ]:
        with pytest.raises(ConfigError, match=fact):
            smtp(wrong)
    file.unlink()
    app = rr.App("shop")
    errors = app.stream("errors", schema="service string")
    errors.alert(rr.alerts.email("ops@example.com"), group_by="service")
    with pytest.raises(ConfigError, match="no server is set for it"):
        require(app.program(), load(tmp_path, {}))


def test_a_receiver_that_is_away_for_an_hour_gets_each_group_once_and_in_order(hooks):
    app = rr.App("shop")
    rows = app.stream("rows", schema="service string, ms bigint")
    rows.alert(
        group_by="service", name="failing", wait="1 minute", interval="2 minutes",
        repeat="10 minutes", resolve="ms = 0",
    )  # fmt: skip
    driver, said, aside = Driver(app, now="2026-01-01T12:00:00Z"), [], []
    posting = Posting("shop", BOX, rr.alerts.webhook(hooks.url))
    queue = Queue(posting, ("service",), said.append, lambda *given: aside.append(given))
    hooks.answer = lambda seen, before: Answer(503)
    sent, told = [], 0

    def pass_minute():
        nonlocal told
        driver.pass_time("1 minute")
        notes = [line["value"] for line in driver.outputs["shop.failing.told"]]
        queue.add(*(Waiting(0, n, each) for n, each in enumerate(notes[told:], told)))
        told = len(notes)
        queue.send(lambda: driver.tick / 1e6, lambda: sent.append(len(queue.waiting)))

    for minute in range(60):
        service = f"s{minute % 7}"
        driver.send("rows", {"service": service, "ms": 0 if minute >= 56 else 7})
        pass_minute()
    assert sent == []
    assert told > 50
    assert len(queue.waiting) == 7
    assert len(hooks.seen) <= 60
    hooks.answer = lambda seen, before: Answer()
    tried = len(hooks.seen)
    pass_minute()
    arrived = [each.body for each in hooks.seen[tried:]]
    last = {}
    for line in driver.outputs["shop.failing.told"]:
        last.pop(line["value"]["service"], None)
        last[line["value"]["service"]] = line["value"]["key"]
    assert [(each["group"]["service"], each["key"]) for each in arrived] == list(last.items())
    assert {each["kind"] for each in arrived} >= {"resolved"}
    assert (said[0][:21], said[-1]) == ("warning: alerts wait:", "over: alerts arrive again")
    assert len(said) == 2
    assert aside == []
    # from then on all that is told arrives
    driver.send("rows", {"service": "new", "ms": 7})
    pass_minute()
    pass_minute()
    pass_minute()
    assert {"service": "new"} in [each.body["group"] for each in hooks.seen]
    assert queue.waiting == []


def test_what_nobody_takes_is_set_aside_and_the_next_goes(hooks):
    class Odd(Posting):
        def send(self, note):
            return 1 / 0 if note["key"] == "odd" else super().send(note)

    said, aside = [], []
    sender = Odd("shop", BOX, rr.alerts.webhook(hooks.url))
    queue = Queue(sender, ("service",), said.append, lambda n, why: aside.append((n["key"], why)))
    hooks.answer = lambda seen, before: Answer(404 if seen.key == "gone" else 200)
    for key in ("odd", "gone", "good"):
        queue.add(Waiting(0, 0, note(key=key)))
    queue.send(lambda: 1.0, lambda: None)
    assert [key for key, _ in aside] == ["odd", "gone"]
    assert aside[0][1].cause == "ZeroDivisionError: division by zero"
    assert hooks.seen[-1].key == "good"
    assert queue.waiting == []


def test_a_wait_that_lasts_for_days_does_not_grow_beyond_half_a_minute(hooks):
    hooks.answer = lambda seen, before: Answer(500)
    sender = Posting("shop", BOX, rr.alerts.webhook(hooks.url))
    queue = Queue(sender, ("service",), lambda text: None, lambda *given: None)
    queue.add(Waiting(0, 0, note()))
    queue.failed = 5_000
    queue.send(lambda: 100.0, lambda: None)
    assert queue.next_try == 130.0


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b"5", b'{"kind": "firing"}', b"[" * 9999]
)
def test_what_no_job_wrote_to_the_outbox_is_passed_over(value):
    assert note_of(value, ("service",)) is None
