"""A market place: saved searches with price ranges, in a topic of their own.

Whoever saves a search writes a record to the topic; whoever deletes one writes a record without a
value. A new offer meets the searches as they stand. What a user is told goes out by user.

$ riverrun describe examples/22_saved_searches.py
market (4 pages)
...
step offers_search  # examples/22_saved_searches.py:...
  documents offers
  queries   saved-searches
...
  keys      nothing: documents are dealt evenly
  text      title, description
...

A saved search: {"name": "ann-1", "query": "lamp -broken price:[10 TO 30}", "owner": "ann",
"condition": "seller <> 'ann'"}
"""

import riverrun as rr


def offers(app: rr.App) -> rr.Stream:
    return app.stream(
        "offers",
        schema="id bigint, title string, description string, price decimal(9, 2), seller string",
    )


def saved(app: rr.App) -> rr.Table:
    return app.table(
        "saved-searches",
        key="name",
        schema="name string, query string, condition string, owner string",
    )


app = rr.App("market", pages=4)
found = offers(app).search(saved(app), text=["title", "description"], keep=["id", "title", "price"])
found.key_by("owner").to("found-for-users")
