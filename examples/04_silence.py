"""Users who click and then are silent for ten minutes: logic of one's own, with state and timers.

$ riverrun describe examples/04_silence.py
silence (16 pages)
...
step clicks_silence_by_user  # examples/04_silence.py:57
  from      clicks
  keys      user
  runs      Silence
  state     clicks BIGINT, last TIMESTAMP
  silent    user VARCHAR, since TIMESTAMP, clicks BIGINT
...
"""

from datetime import timedelta

import riverrun as rr
from riverrun.processor import Context, Event, State

PERIOD = timedelta(minutes=10)


class Silence(rr.Processor):
    """Tells when a user has been silent for ten minutes."""

    state = "clicks bigint default 0, last timestamp"
    outputs = {"silent": "user string, since timestamp, clicks bigint"}

    def on_event(self, event: Event, state: State, context: Context) -> None:
        if state.last is not None and context.time - state.last >= PERIOD:
            self.tell(state, context)  # the timer would fire after this batch's events
        state.clicks += 1
        state.last = max(state.last or context.time, context.time)
        context.timer("silence", state.last + PERIOD)

    def on_timer(self, name: str, state: State, context: Context) -> None:
        self.tell(state, context)

    def tell(self, state: State, context: Context) -> None:
        context.emit(
            "silent",
            _at=state.last + PERIOD,
            user=context.key["user"],
            since=state.last,
            clicks=state.clicks,
        )
        state.clear()


def clicks(app: rr.App) -> rr.Stream:
    return app.stream(
        "clicks", schema="user string, page string, at timestamp", time="at", lateness="5 seconds"
    )


def silent(stream: rr.Stream) -> rr.Stream:
    return stream.process(Silence(), by="user")["silent"]


app = rr.App("silence")
users = silent(clicks(app))
users.to("silent-users")
users.group_by("user", name="visits").agg(visits=rr.count(), clicks=rr.sum("clicks")).to("visits")
