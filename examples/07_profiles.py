"""Activity with the profile of its user: each event, and events per country.

Profiles come from a topic that holds the last one of each user, such as a database's changes; a
record without a value deletes a profile. An event gets the profile as it stands when the event is
processed, and no later change touches it.

Events travel to the page of their user's profile. A small table can be kept whole in every page:
`app.table("profiles", …, replicate=True)`. Events are then spread evenly over the pages, also if
one user has half of them.

    $ riverrun describe examples/07_profiles.py
    profiles (16 pages)
    ...
    step enriched  # examples/07_profiles.py:...
      left      activity
      right     profiles
                table by id  # examples/07_profiles.py:...
      keys      user = id
      join      left, with the table as it stands
    ...
"""

import riverrun as rr


def enriched(app: rr.App) -> rr.Stream:
    """Every event; without a profile, the columns of one are null."""
    activity = app.stream(
        "activity",
        schema="user bigint, action string, at timestamp",
        key="user",
        time="at",
        lateness="10 seconds",
    )
    profiles = app.table("profiles", schema="id bigint, country string, plan string", key="id")
    rows = activity.join(profiles, on={"user": "id"}, how="left", name="enriched")
    return rows.select("user", "action", "at", "plan", country="coalesce(country, 'unknown')")


def per_country(rows: rr.Stream) -> rr.Table:
    """Events and users per country and hour."""
    return (
        rows.group_by("country", name="countries")
        .window(rr.tumbling("1 hour"), updatable="1 hour")
        .agg(events=rr.count(), users=rr.distinct("user"))
    )


app = rr.App("profiles")
rows = enriched(app)
rows.to("enriched-activity")
per_country(rows).to("activity-per-country")
