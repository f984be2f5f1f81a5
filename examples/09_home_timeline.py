"""The home timeline of everyone: the latest 100 tweets of those whom one follows.

Tweets and follows are tables, and all that happens is a change of one of them: a tweet or its
deletion, a follow or its end. The joined table has a row per tweet and follower of its author; of
those each follower keeps the latest 100. When one of them goes, the next one is there again.

    $ riverrun describe examples/09_home_timeline.py
    home-timeline (16 pages)
    ...
    step delivered  # examples/09_home_timeline.py:...
      left      tweets
      right     follows
      keys      author = followed
      join      inner, two tables
    ...
    step timelines  # examples/09_home_timeline.py:...
      from      delivered
      keys      follower
      keeps     the 100 rows with the highest posted_at
    ...
"""

import riverrun as rr

LENGTH = 100


def timelines(app: rr.App, length: int = LENGTH) -> rr.Table:
    """A row per follower and tweet."""
    tweets = app.table(
        "tweets", schema="id bigint, author string, text string, posted_at timestamp", key="id"
    )
    follows = app.table(
        "follows", schema="follower string, followed string", key=["follower", "followed"]
    )
    delivered = tweets.join(follows, on={"author": "followed"}, name="delivered")
    return delivered.group_by("follower", name="timelines").top(length, by="posted_at")


app = rr.App("home-timeline")
timelines(app).to("timelines")
