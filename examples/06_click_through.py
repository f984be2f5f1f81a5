"""Searches and the clicks that follow them: the share of searches that lead to a click.

A click within a minute belongs to its search. That a search has none is known only when the minute
is over: such searches leave the join later than others, and the windows after it wait as much
longer. A pair has the time of its click. To count by the time of the search, the rows of a search
are brought together first, and then grouped by ten minutes.

    $ riverrun describe examples/06_click_through.py
    click-through (32 pages)
    ...
    step followed  # examples/06_click_through.py:...
      left      searches
      right     clicks
                select search, url  # examples/06_click_through.py:...
      keys      search
      join      left, two streams
      within    0 seconds before, 1 minute after
    ...
"""

import riverrun as rr


def followed(app: rr.App) -> rr.Stream:
    """A row per search and click, and one without a url per search that has no click."""
    searches = app.stream(
        "searches",
        schema="search string, words string, at timestamp",
        key="search",
        time="at",
        lateness="5 seconds",
    )
    clicks = app.stream(
        "clicks", schema="search string, url string, at timestamp", time="at", lateness="5 seconds"
    )
    return searches.join(
        clicks.select("search", "url"), on="search", after="1 minute", how="left", name="followed"
    )


def searched(rows: rr.Stream) -> rr.Table:
    """A row per search. All its rows are within a minute, so a gap of two is never inside."""
    return (
        rows.group_by("search", name="searched")
        .window(rr.session("2 minutes"), emit="final")
        .agg(began=rr.min("at"), clicks=rr.count("url"))
    )


def rates(table: rr.Table) -> rr.Table:
    """Searches of ten minutes, and the share of them that led to a click."""
    return (
        table.with_columns(ten_minutes="time_bucket(interval '10 minutes', began)")
        .group_by("ten_minutes", name="rates")
        .agg(searches=rr.count(), clicked=rr.sum("clicks > 0"))
        .with_columns(rate="round(clicked / searches, 3)")
    )


app = rr.App("click-through")
rows = followed(app)
rows.to("followed-searches")
rates(searched(rows)).to("click-through-rates", rr.screen())
