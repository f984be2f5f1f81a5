"""A shop whose customers may be forgotten: what was bought stays counted, who bought it does not.

Orders hold a name, an address and what was said to the courier. They are sealed by a key of the
customer before they are written anywhere; what is computed from them is sealed, too, unless the
program says that it is public.

$ riverrun describe examples/19_shop.py
shop (16 pages)
...
source orders  # examples/19_shop.py:...
...
  personal  name, email, note of customer
...

With `riverrun run examples/19_shop.py` in one terminal, in another:

    riverrun tail shop-labels                    sealed: rrp1:…
    riverrun tail shop-labels --reveal shop
    riverrun get shop_customers 42 --reveal
    riverrun forget customer/42 --app shop
    riverrun tail shop-labels --reveal shop      null, and marked as forgotten
"""

import riverrun as rr

SCHEMA = """
    order_id string, customer bigint, name string, email string, note string, city string,
    cents bigint, at timestamp
"""


def orders_of(app: rr.App) -> rr.Stream:
    return app.stream(
        "orders",
        schema=SCHEMA,
        key="customer",
        time="at",
        lateness="10 seconds",
        personal=rr.personal("name", "email", "note", subject="customer"),
    )


def labels(orders: rr.Stream) -> rr.Stream:
    """What is stuck on a parcel, and what may be known of it by all."""
    return orders.where("email like '%@%'").select(
        "order_id",
        "customer",
        label="name || ', ' || city",
        courier="coalesce(note, 'no note')",
        provider="public(split_part(email, '@', 2))",
    )


def customers(orders: rr.Stream) -> rr.Table:
    """The last name and address of each."""
    return orders.select("customer", "name", "email").to_table("customer", name="customers")


def per_city(orders: rr.Stream) -> rr.Table:
    """Sealed addresses can be counted: one address is one text."""
    return (
        orders.group_by("city", name="cities")
        .window(rr.tumbling("1 hour"))
        .agg(orders=rr.count(), cents=rr.sum("cents"), addresses=rr.distinct("email"))
    )


app = rr.App("shop")
orders = orders_of(app)
labels(orders).to("shop-labels")
customers(orders).to("shop-customers", rr.sinks.view("shop_customers"))
per_city(orders).to("shop-cities")
