"""Articles of a PostgreSQL database, kept in a search index, a cache and a lake by one program.

The database decides; everything else follows its log. The application writes each article once, to
PostgreSQL, and to nothing else: no second write can fail, or come in another order. A row that is
changed or deleted there is changed or deleted in all three, exactly once, also after `kill -9`.

    $ riverrun describe examples/11_articles_everywhere.py
    articles (16 pages)
    ...
      to        search index articles of title, body, exactly once
    ...
      to        cache articles, exactly once
    ...
      to        Delta table in ...lake/articles, exactly once
    ...

With `valkey = "redis://…"` in riverrun.toml, `riverrun run` starts it, and then
`riverrun search articles 'exactly once'` finds what is published.
"""

import riverrun as rr


def articles(app: rr.App, name: str = "shop") -> rr.Table:
    """All rows of the table `articles`, then every change of it, in the order of commits."""
    return app.capture(
        "articles",
        name=name,
        schema="id bigint, title string, body string, author string, price decimal(9, 2),"
        " draft boolean, updated timestamp",
        key="id",
    )


def published(table: rr.Table) -> rr.Table:
    """An article that becomes a draft again goes from wherever it was."""
    return table.where("not draft").select("id", "title", "body", "author", "price", "updated")


app = rr.App("articles")
table = articles(app)
public = published(table)
public.to(rr.sinks.search_index("articles", text=["title", "body"], language="english"))
public.select("id", "title", "author", "price").to(rr.sinks.cache("articles"))
table.to(rr.sinks.delta("lake/articles"))
