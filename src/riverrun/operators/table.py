"""All kinds of steps with state. A new one needs its row here, and nothing else knows its name."""

from __future__ import annotations
