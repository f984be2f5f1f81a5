"""A broker that asks who we are: TLS, and SASL over it, by the settings as users write them. Both
ways of reading and of writing, every command, and one clear error where we are not let in."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import riverrun as rr
from queueing import taken
from riverrun import config
from riverrun.embedded import kafka
from riverrun.errors import BrokerError, ConfigError
from riverrun.kafka import admin, ranges
from riverrun.kafka.control import ControlLog
from riverrun.kafka.direct_sending import DirectSending
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.refusals import REFUSED
from riverrun.kafka.sending import PublicSending
from riverrun.partitions import Partition, Range
from running import Run, produce, table
from secured import Secured, secured, settings_file
from test_reading import contents, odd_records, read, written
from test_writing import keyed, keyless, odd_rows, stored, write

pytestmark = pytest.mark.broker

START, TEXT = 1_767_225_600_000, "%Y-%m-%dT%H:%M:%SZ"
PROGRAM = """
import riverrun as rr
app = rr.App("secured")
views = app.stream("secured-views", schema="page string, at timestamp_ms", time="at")
per_page = views.group_by("page").window(rr.tumbling("1 minute"), emit="changes")
per_page.agg(n=rr.count()).to("secured-counts")
"""


@pytest.fixture(scope="module")
def door(broker_settings, tmp_path_factory) -> Iterator[Secured]:
    with secured(broker_settings, tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture
def client(door, tmp_path) -> dict[str, str]:
    """Settings as in the file of a user, who is somewhere below it; also of commands."""
    shutil.copy(door.trusted.file, tmp_path / "ca.pem")
    own = door.sasl(ssl_ca_location="ca.pem")
    (tmp_path / "riverrun.toml").write_text(settings_file(door.at("SECURE"), own))
    return kafka.client(config.load())


def test_files_of_certificates_are_relative_to_the_settings(tmp_path):
    own = {"ssl.ca.location": "ca.pem", "ssl.key.location": "/k.key", "client.id": "x"}
    (tmp_path / "riverrun.toml").write_text(settings_file("kafka:9093", own))
    expected = {**own, "ssl.ca.location": str(tmp_path / "ca.pem")}
    (tmp_path / "deeper").mkdir()
    assert config.load(tmp_path / "deeper").kafka == expected
    (tmp_path / "riverrun.toml").write_text('[kafka]\nssl.ca.location = "probe"\n')
    assert config.load(tmp_path).kafka == {"ssl.ca.location": "probe"}  # librdkafka looks for it


def ways_in(door: Secured) -> dict[str, dict[str, str]]:
    """By password, and by a certificate; in files, and as text in the settings themselves."""
    mutual = door.mutual(door.client)
    texts = {
        name.replace("location", "pem"): Path(value).read_text()
        for name, value in mutual.items()
        if name.startswith("ssl.")
    }
    found = {
        mechanism: door.client_of("SECURE", door.sasl(mechanism))
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    }
    found["certificate"] = door.client_of("MUTUAL", mutual)
    found["text"] = door.client_of("MUTUAL", {"security.protocol": "ssl", **texts})
    return found


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate", "text"])
def test_both_ways_read_what_was_written(door, how):
    own, topic = ways_in(door)[how], f"secured-read-{how}"
    admin.create_topic(own, topic, partitions=2)
    expected = written(own, topic, [*odd_records(1500, 11), (b"k", b"m" * 900_000)])
    for way in ("direct", "public"):
        found = read(own, topic, way)
        assert {number: contents(rows) for number, rows in found.items()} == expected, way


@pytest.mark.parametrize("how", ["SCRAM-SHA-512", "certificate"])
def test_both_ways_write_the_same_in_transactions(door, how):
    own, rows, found = ways_in(door)[how], odd_rows(2000, 12, timed=True), []
    for way in (PublicSending, DirectSending):
        topic = f"secured-write-{how}-{way.__name__}"
        admin.create_topic(own, topic, partitions=3)
        write(own, topic, rows, way)
        found.append(stored(own, topic))
    public, direct = found
    assert sum(map(len, direct.values())) == 2000
    assert keyed(direct, 3) == keyed(public, 3)
    assert keyless(direct, 3) == keyless(public, 3)


def test_every_command_and_the_control_log_are_let_in(riverrun, client, monkeypatch, tmp_path):
    deeper = tmp_path / "deeper"
    deeper.mkdir()
    monkeypatch.chdir(deeper)  # the certificate is named relative to the settings
    assert riverrun("topics", "create", "secured-told", "--partitions", "2").code == 0
    sent = riverrun("produce", "secured-told", "--json", stdin='{"n": 1}\n{"n": 2}\n')
    assert json.loads(sent.out)["records"] == 2
    told = riverrun("tail", "secured-told", "--json").out.splitlines()
    assert sorted(json.loads(line)["value"]["n"] for line in told) == [1, 2]
    assert "secured-told" in riverrun("topics").out
    assert "nothing is known of the application" in riverrun("lag", "nobody").err
    log = ControlLog(client, "secured-app")
    log.make()
    assert (log.exists(), log.end()) == (True, 0)


def test_a_queue_is_let_in_by_a_certificate_of_its_own(door, monkeypatch):
    for how in ("certificate", "text"):  # by password: test_queue_secured
        own, topic = ways_in(door)[how], f"secured-queue-{how}"
        admin.create_topic(own, topic)
        written(own, topic, [(b"k", b'{"n": 1}')], partitions=1)
        named = {name: value for name, value in own.items() if name != "bootstrap.servers"}
        told = config.load().override(brokers=own["bootstrap.servers"], kafka=named)
        with monkeypatch.context() as patch:
            patch.setattr(config, "load", lambda told=told: told)
            with rr.queue(topic, group=topic) as queue:
                assert taken(queue, idle="0.5 seconds") == [{"n": 1}]


def strangers(door: Secured) -> dict[str, tuple[str, dict[str, str], str, str]]:
    """Who is not let in: where, with what, what is found, and the hint."""
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(door.trusted.file)}
    unknown = str(door.unknown.file)
    stranger = door.mutual(door.unknown.sign("stranger"))
    wrong = door.sasl(sasl_password="wrong")
    return {
        "password": ("SECURE", wrong, "invalid credentials", "sasl.password right"),
        "authority": ("SECURE", door.sasl(ssl_ca_location=unknown), "verify failed", "ssl.ca.loc"),
        "expired": ("EXPIRED", tls, "certificate has expired", "is to be renewed"),
        "unsigned": ("MUTUAL", stranger, "alert bad certificate", "ssl.certificate.location"),
        "plain text": ("SECURE", {}, "hangs up without a word", "security.protocol"),
    }


@pytest.mark.parametrize("who", ["password", "authority", "expired", "unsigned", "plain text"])
def test_who_is_not_let_in_is_told_why_and_what_to_do(door, who, monkeypatch):
    monkeypatch.setattr(admin, "PATIENCE", timedelta(seconds=1.5))
    where, own, got, hint = strangers(door)[who]
    with pytest.raises(BrokerError) as caught:
        admin.topics(door.client_of(where, own))
    assert caught.value.fact == REFUSED
    assert got in str(caught.value.got)
    assert hint in str(caught.value.hint)


def test_a_certificate_that_is_not_there_is_an_error_of_the_settings(door):
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location failed"):
        admin.topics(door.client_of("SECURE", door.sasl(ssl_ca_location="/nowhere.pem")))


def test_a_password_that_was_changed_is_why_a_job_waits_in_vain(door, monkeypatch):
    """Clients that wait for brokers hear nothing of it."""
    monkeypatch.setattr(admin, "PATIENCE", timedelta(seconds=1))
    monkeypatch.setattr(ranges, "OUTAGE", 1.0)
    own = door.client_of("SECURE", door.sasl(sasl_password="wrong"))
    for way in ("direct", "public"):
        with pytest.raises(BrokerError, match=REFUSED):
            [*RangeReader(own, way).read([[Range(Partition("any", 0), 0, 1)]])]


@pytest.mark.slow
def test_a_run_that_is_not_let_in_ends_with_one_error(door, riverrun, tmp_path):
    """Spark is started meanwhile, and stopped."""
    (tmp_path / "program.py").write_text(PROGRAM)
    wrong = settings_file(door.at("SECURE"), door.sasl(sasl_password="wrong"))
    (tmp_path / "riverrun.toml").write_text(wrong)
    ended = riverrun("run", "program.py")
    told = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert (ended.code, told) == (2, [f"error: {REFUSED} [RR201]"])


def views(client: dict[str, str], folder: Path) -> Counter[tuple[str, str]]:
    """Sends them, and writes the program; how many there are of each page and minute."""
    admin.create_topic(client, "secured-views", partitions=2)
    sent = [{"page": f"/{n % 7}", "at": START + n * 50} for n in range(6000)]
    produce(client, "secured-views", sent, partitions=2)
    (folder / "program.py").write_text(PROGRAM)
    return Counter((row["page"], minute_of(row["at"])) for row in sent)


def counted(client: dict[str, str]) -> dict[tuple[str, str], int]:
    rows = table(client, "secured-counts").values()
    return {(row["page"], row["window_start"]): row["n"] for row in rows}


def forget(client: dict[str, str]) -> None:
    for topic in ("secured-views", "secured-counts"):
        admin.delete_topic(client, topic)


@pytest.mark.spark
def test_a_windowed_count_runs_exactly_once_over_tls_and_sasl(client, once, tmp_path):
    expected = views(client, tmp_path)
    once(tmp_path / "program.py")
    assert counted(client) == expected
    [progress] = (topic for topic in admin.topics(client) if topic.name == "secured.progress")
    assert progress.span > 0  # results were written in transactions
    forget(client)


@pytest.mark.spark
@pytest.mark.slow
def test_a_windowed_count_that_is_killed_goes_on_over_tls_and_sasl(client, tmp_path):
    expected, home = views(client, tmp_path), tmp_path / "home"
    with Run(tmp_path / "program.py", "--max-events", "1000", home=home) as run:
        run.until(2000)
        run.kill()
    with Run(tmp_path / "program.py", "--once", home=home) as run:
        assert run.end() == 0, run.error()
    assert counted(client) == expected
    forget(client)


def minute_of(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 60_000 * 60, UTC).strftime(TEXT)
