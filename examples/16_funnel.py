"""A funnel with drop-out: who looks, chooses and pays within half an hour, and who does not.

Partial matches that run out of time are an output of their own; null tells how far each came.
"""

import riverrun as rr


def events(app: rr.App) -> rr.Stream:
    return app.stream(
        "events", schema="user string, kind string, item string, at timestamp", time="at"
    )


def funnel(stream: rr.Stream) -> rr.Stream:
    bought = (
        rr.pattern()
        .begin("looked", "kind = 'view'")
        .followed_by("chose", "kind = 'basket' AND chose.item = looked.item")
        .followed_by("paid", "kind = 'pay'")
        .within("30 minutes")
    )
    measures = {
        "item": "looked.item",
        "looked_at": "looked.at",
        "chose_at": "chose.at",
        "paid_at": "paid.at",
    }
    return stream.match(bought, by="user", measures=measures, timeouts=True, name="funnel")


app = rr.App("funnel")
found = funnel(events(app))
found.to("bought")
found.timed_out.to("dropped-out")
