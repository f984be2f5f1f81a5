"""A news watch: ten thousand readers have said what they want to hear of.

Queries come by the control log: `riverrun queries add news-watch 'river "exactly once"' --name
ann-1`, or a file of them. Each article is told which queries it fits, with the words marked.

$ riverrun describe examples/21_news_watch.py
news-watch (4 pages)
...
step wanted  # examples/21_news_watch.py:...
  documents articles
  keys      nothing: documents are dealt evenly
  queries   from the control log: riverrun queries
  text      title (english), body (english)
...

To look on for a while: `riverrun search watch news-watch 'title:kafka OR "exactly once"'`.
"""

import riverrun as rr


def articles(app: rr.App) -> rr.Stream:
    return app.stream(
        "articles",
        schema="id bigint, title string, body string, section string, at timestamp",
        time="at",
        lateness="2 seconds",
    )


def wanted(stream: rr.Stream) -> rr.Stream:
    return stream.search("wanted", text=["title", "body"], language="english", keep=["id", "title"])


app = rr.App("news-watch", pages=4)
wanted(articles(app)).to("news-for-readers")
