"""StatsD over UDP."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from doors import home, new_topic, records
from riverrun.server.ingest.udp import UdpDoor

pytestmark = pytest.mark.broker


def test_lines_of_statsd_become_records_and_what_is_lost_is_counted(
    broker: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(broker)
    own = home(tmp_path, broker, topic)
    with UdpDoor(own, "0", topic) as udp, socket.socket(type=socket.SOCK_DGRAM) as sender:
        host, port = udp.address.rsplit(":", 1)
        place = host, int(port)
        for number in range(50):
            sender.sendto(f"hits:{number}|c|@0.5\nload:+1.5|g\n".encode(), place)
        sender.sendto(b"nonsense\n\nwho:ann|s|#env:dev,beta\nhits:x|c\n\xff:1|c", place)
    facts = udp.facts()
    assert facts["lost"] == {"unreadable": 3, "kernel": 0, "buffer": 0, "kafka": 0}
    assert (facts["datagrams"], facts["lines"], facts["taken"]) == (51, 104, 101)
    assert udp.told() == "udp: 101 of 104 lines taken; lost: 3 unreadable"
    found = [each["value"] for each in records(broker, topic)]
    hits = [each for each in found if each["name"] == "hits"]
    assert sorted(each["value"] for each in hits) == list(range(50))
    assert {(each["type"], each["rate"]) for each in hits} == {("c", 0.5)}
    [member] = [each for each in found if each["type"] == "s"]
    assert (member["member"], member["tags"]) == ("ann", {"env": "dev", "beta": ""})


def test_datagrams_that_the_kernel_has_no_room_for_are_told(
    broker: dict[str, str], tmp_path: Path
) -> None:
    own = home(tmp_path, broker, new_topic(broker))
    udp = UdpDoor(own, "127.0.0.1:0", own.serve.name)  # nobody takes what comes
    udp.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        for _ in range(200):
            sender.sendto(b"hits:1|c" * 100, ("127.0.0.1", int(udp.address.rsplit(":", 1)[1])))
    assert udp.facts()["lost"]["kernel"] > 100
    udp.socket.close()
