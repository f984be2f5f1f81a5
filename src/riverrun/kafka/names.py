"""What a topic may be called."""

from __future__ import annotations

import re

TOPIC_RULE = "a topic's name has letters, digits, _ . and -, at most 249"


def may_be_topic(name: str) -> bool:
    """By Kafka's own rule: no broker has a topic of any other name."""
    return bool(re.fullmatch(r"[\w.-]{1,249}", name, re.ASCII)) and name not in (".", "..")
