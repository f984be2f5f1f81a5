"""Personal columns of views, read for those who may: `?reveal=true`."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from riverrun.errors import InputError
from riverrun.forgetting import Keys
from riverrun.forgetting.places import place_of
from riverrun.server.answers import Refused
from riverrun.server.context import Context
from riverrun.views.reading import Known

OPTION = "reveal"


async def revealed(context: Context, request: Request, view: Known, said: dict[str, Any]) -> Any:
    """What is to be answered, as it is; or if it is asked for, with what can be read in `row` or
    `rows`, and `forgotten` for what cannot any more."""
    asked = request.query_params.get(OPTION)
    if asked in (None, "false"):
        return said
    if asked != "true":
        raise InputError("reveal is true or false", got=repr(asked)[:100])
    # also where nobody else needs a token: who may ask the server need not be one who may read keys
    context.guard.require(request, "reveal", view.name)
    place = place_of(context.settings, view.application)
    if not place.there:
        raise Refused(409, f"the application {view.application!r} has no keys here")
    name = "row" if "row" in said else "rows"
    found = await run_in_threadpool(Keys(place.store()).reveal, said[name])
    return {
        **said,
        name: found.value,
        **({"forgotten": found.forgotten} if found.forgotten else {}),
    }
