"""`riverrun queries`: stored queries of an application: add, list, remove, test, cost."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from riverrun import exact
from riverrun.asking import Asker
from riverrun.cli import options, say_json
from riverrun.cli.asked import ask, print_known, timeout_option
from riverrun.cli.grid import print_grid
from riverrun.cli.queried import Queried
from riverrun.control import QUERY, REMOVE_QUERY
from riverrun.errors import InputError
from riverrun.queries import Queries, costs, step_of
from riverrun.told import Known, read_file

WIDEST = 60
"""Of a query in a table."""

step_option = click.option(
    "--step", metavar="NAME", help="The step with queries; needed if the program has several."
)


@click.group("queries")
def command() -> None:
    """Queries that wait for documents, and change while an application runs: see
    docs/search-streams.md.

    \b
    riverrun queries add news 'kafka "exactly once"' --name kafka --owner ann
    riverrun queries list news
    riverrun queries remove news kafka
    riverrun queries test news.py 'river -lake' --input articles=articles.jsonl
    riverrun queries cost news
    """


@command.command("add", cls=Queried)
@click.argument("app")
@click.argument("query")
@click.option("--name", help="Of the query; without it, QUERY is a file.")
@click.option("--where", metavar="SQL", help="A condition over the document's columns.")
@click.option("--owner", help="Told with each hit.")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Told with each hit.")
@step_option
@timeout_option
@options.brokers_option
@options.json_option
def add(app: str, query: str, **given: Any) -> None:
    """Add QUERY to the application APP, or all queries in a file; those of the same names change.

    A file is TOML if its name ends with .toml, else JSON. A query has a name, a query, perhaps a
    condition in SQL (where), an owner and metadata. It sees documents from the job's clock on. One
    that is refused changes nothing, and the others are added.

    \b
    riverrun queries add news 'kafka -spark' --name kafka --where "price < 20"
    riverrun queries add news --name lakes -- '-river lake'
    riverrun queries add news saved.toml --timeout 60

    \b
    [[query]]
    name = "kafka"
    query = '"exactly once" title:kafka'
    where = "price < 20"
    owner = "ann"
    """
    parts = ("name", "where", "owner", "metadata")
    own = {part: given.pop(part) for part in parts}
    if own["name"] is None:
        found = _in_file(query)
    else:
        own["metadata"] = dict(each.partition("=")[::2] for each in own["metadata"])
        found = [{part: value for part, value in {**own, "query": query}.items() if value}]
    _ask(app, QUERY, found, **given)


def _in_file(text: str) -> list[dict[str, Any]]:
    if not Path(text).is_file():
        raise InputError(
            "there is no such file of queries", got=text, hint="to add a query, give it a --name"
        )
    return read_file(Path(text), "query")


@command.command("remove")
@click.argument("app")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@step_option
@timeout_option
@options.brokers_option
@options.json_option
def remove(app: str, names: tuple[str, ...], **given: Any) -> None:
    """Remove queries from the application APP.

    \b
    riverrun queries remove news kafka
    """
    _ask(app, REMOVE_QUERY, [{"name": name} for name in names], **given)


@command.command("list")
@click.argument("app")
@step_option
@click.option("--all", "everything", is_flag=True, help="Also those that are removed or refused.")
@options.brokers_option
@options.json_option
def list_(app: str, step: str | None, everything: bool, brokers: str | None, as_json: bool) -> None:
    """List the stored queries of the application APP, and since when each is in effect.

    \b
    riverrun queries list news
    riverrun queries list news --all --json
    """
    columns = {
        "query": lambda each: each.name[:WIDEST], "state": lambda each: each.state,
        "from": lambda each: each.effective, "owner": _owner, "what": _about,
    }  # fmt: skip
    queries = Queries(app, step, brokers=brokers)
    print_known(queries, columns, everything=everything, as_json=as_json)


@command.command("test", cls=Queried)
@click.argument("program", type=click.Path(path_type=Path))
@click.argument("query")
@click.option("--where", metavar="SQL", help="A condition over the document's columns.")
@step_option
@click.option("--input", "inputs", multiple=True, metavar="TOPIC=FILE", help="JSON lines.")
@options.json_option
def test(program: Path, query: str, where: str | None, step: str | None, **given: Any) -> None:
    """Try QUERY on files, without a broker: what is wrong with it, and which documents it finds.

    \b
    riverrun queries test news.py 'river -lake price:<20'
    riverrun queries test news.py 'river -lake' --input articles=articles.jsonl
    """
    from riverrun.cli.queries_tried import tried  # noqa: PLC0415 - not for a running application

    needs_a_word, found = tried(program, query, where=where, step=step, inputs=given["inputs"])
    if given["as_json"]:
        say_json({"needs_a_word": needs_a_word, "found": found})
        return
    click.echo(
        "it is met under one of its words: it need not be tested on every document"
        if needs_a_word
        else "it needs no word: it is tested on every document"
    )
    for each in found:
        click.echo(exact.dumps(each))


@command.command("cost")
@click.argument("app")
@step_option
@click.option("-n", "--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@timeout_option
@options.json_option
def cost(app: str, step: str | None, limit: int, timeout: timedelta, as_json: bool) -> None:
    """Show what the stored queries of the application APP cost: the most expensive ones first.

    A candidate is a document that a query had to be looked at for, a hit one that it fits. Time is
    CPU time of the workers since they started, shared among the candidates of each batch.

    \b
    riverrun queries cost news
    riverrun queries cost news --limit 100 --json
    """
    asker = Asker(app)
    named = step or step_of(asker.settings, app)
    rows = asker.ask(named, "SELECT * FROM rows", timeout=timeout).rows
    every, each = costs(rows, limit)
    if as_json:
        say_json({"all": every, "queries": each})
        return
    click.echo(
        f"{every['queries']:,} queries, of which {every['unindexed']:,} need no word; "
        f"{every['documents']:,} documents, {every['candidates']:,} candidates, "
        f"{every['hits']:,} hits, {every['microseconds'] / 1e6:.2f} s"
    )
    shown = [
        (one["query"][:WIDEST], one["owner"] or "", f"{one['candidates']:,}", f"{one['hits']:,}",
         f"{one['microseconds']:,.0f}", "" if one["needs_a_word"] else "needs no word")
        for one in each
    ]  # fmt: skip
    columns = ("query", "owner", "candidates", "hits", "microseconds", "")
    print_grid(columns, shown, numbers=set(columns[2:5]))


def _ask(
    app: str, kind: str, asked: list[dict[str, Any]], *, step: str | None, brokers: str | None,
    **given: Any,
) -> None:  # fmt: skip
    ask(Queries(app, step, brokers=brokers), kind, asked, **given)


def _owner(known: Known) -> str:
    return str(known.asked.get("owner") or "")[:WIDEST]


def _about(known: Known) -> str:
    """Of one that was refused it may be anything."""
    parts = (str(known.asked[part]) for part in ("query", "where") if known.asked.get(part))
    return " ".join(" where ".join(parts).split())[:WIDEST]
