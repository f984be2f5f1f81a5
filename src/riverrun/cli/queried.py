"""Commands that are given a query, which may begin with a minus."""

from __future__ import annotations

import click


class Queried(click.Command):
    """Tells how a query is given that looks like an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name.startswith("--"):
                raise
            hint = "a query that begins with - stands at the end, behind --"
            raise click.UsageError(f"{error.format_message()}; {hint}", ctx) from error
