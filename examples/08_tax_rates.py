"""Invoices with the tax rate of the day of sale, whenever they are written and read.

A rate is valid from `since` until the next one of its region. A sale gets the rate that was valid
at its own time. The column `rates_version` names the record that the rate was read from, so that an
audit can tell where each invoice has it from.

A rate that is published late, for a day in the past, corrects the invoices of the last 30 days: the
old one is taken back, and one with the right rate is there.

    $ riverrun describe examples/08_tax_rates.py
    taxes (16 pages)
    ...
    step invoices  # examples/08_tax_rates.py:...
      left      sales
      right     rates
                table by region  # examples/08_tax_rates.py:...
      keys      region
      join      left, with the version that was valid then
      history   30 days, corrected by late versions
    ...
"""

import riverrun as rr


def invoices(app: rr.App) -> rr.Table:
    """A row per sale, by `event`, which names the sale's record."""
    sales = app.stream(
        "sales",
        schema="id bigint, region string, net decimal(18, 2), sold_at timestamp",
        key="region",
        time="sold_at",
        lateness="1 hour",
    )
    rates = app.table(
        "rates",
        schema="region string, percent decimal(5, 2), since timestamp",
        key="region",
        time="since",
        max_ahead="366 days",  # rates are published before they are valid
    )
    return sales.join(
        rates,
        on="region",
        as_of="event time",
        how="left",
        history="30 days",
        corrections=True,
        name="invoices",
    )


def with_tax(table: rr.Table) -> rr.Table:
    """What cannot be taxed, for want of a rate, has no total."""
    return table.select(
        "event",
        "id",
        "region",
        "net",
        "percent",
        "rates_version",
        total="cast(net * (100 + percent) / 100 as decimal(18, 2))",
    )


def owed(table: rr.Table) -> rr.Table:
    """What each region is owed, which corrections move as well."""
    return (
        table.where("total is not null")
        .group_by("region", name="owed")
        .agg(invoices=rr.count(), tax=rr.sum("total - net"))
        .with_columns(tax="round(tax, 2)")
    )


app = rr.App("taxes")
table = with_tax(invoices(app))
table.to("invoices")
owed(table).to("tax-owed")
