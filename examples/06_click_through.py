"""Searches and the clicks that follow them: the share of searches that lead to a click.

A click within a minute belongs to its search. That a search has none is known only when the minute
is over: such searches leave the join later than others, and the windows after it wait as much
longer. A pair has the time of its search here, so that the windows are those of the searches.

    $ riverrun describe examples/06_click_through.py
    click-through (16 pages)
    ...
    step followed  # examples/06_click_through.py:...
      left      searches
      right     clicks
                select search, url  # examples/06_click_through.py:...
      keys      search
      join      left, two streams
      within    0 seconds before, 1 minute after
      time      that of the left row
    ...
"""

import riverrun as rr


def followed(app: rr.App) -> rr.Stream:
    """A row per search and click, and one without a url per search that has no click."""
    searches = app.stream(
        "searches",
        schema="search string, site string, words string, at timestamp",
        key="search",
        time="at",
        lateness="5 seconds",
    )
    clicks = app.stream(
        "clicks", schema="search string, url string, at timestamp", time="at", lateness="5 seconds"
    )
    return searches.join(
        clicks.select("search", "url"),
        on="search",
        after="1 minute",
        how="left",
        time="left",
        name="followed",
    )


def rates(rows: rr.Stream) -> rr.Table:
    """Searches of ten minutes, and the share of them that led to a click."""
    return (
        rows.with_columns(clicked="if(url is null, null, search)")
        .group_by("site", name="rates")
        .window(rr.tumbling("10 minutes"))
        .agg(searches=rr.distinct("search"), clicked=rr.distinct("clicked"))
        .with_columns(rate="round(clicked / searches, 3)")
    )


app = rr.App("click-through")
rows = followed(app)
rows.to("followed-searches")
rates(rows).to("click-through-rates", rr.sinks.screen())
