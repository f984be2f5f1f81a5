"""What stands at a step of an application, seen through a server: stored queries, rules, alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from riverrun.alerting import Standing
from riverrun.arguments import checked, names
from riverrun.client.http import Http, path_of
from riverrun.client.results import Refusal
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.told import Known

WAIT: Duration = "10 seconds"
PAGE = "1000"


@checked
class Told:
    """The stored queries, or the rules, of a step, as `riverrun.queries.Queries` and
    `riverrun.rules.Rules` have them; but what is refused is a Refusal."""

    def __init__(self, http: Http, word: Literal["queries", "rules"], step: str) -> None:
        self.http, self.word, self.step = http, word, step

    def __repr__(self) -> str:
        return f"<{self.word} of {self.step} at {self.http.url}>"

    def add(self, *given: Mapping[str, Any], timeout: Duration = WAIT) -> list[Known]:
        """Add queries or rules, or change those with the same names, one by one; what the job
        answers. While it does not run they are "not answered"."""
        return [
            _known(self._request("PUT", str(each.get("name", "")), timeout, each)) for each in given
        ]

    def remove(self, *names: str, timeout: Duration = WAIT) -> list[Known]:
        """Remove them by name; what the job answers."""
        return [_known(self._request("DELETE", name, timeout)) for name in names]

    def get(self, name: str) -> Known | None:
        """What stands under the name."""
        try:
            return _known(self.http.request("GET", path_of(self.word, self.step, name)))
        except Refusal as error:
            if error.status != 404 or "last" not in error.answer["error"]:
                raise
            return None

    def standing(self) -> dict[str, Known]:
        """Those that are in effect, or will be once the job has answered, by name."""
        return self._listed({})

    def all(self) -> dict[str, Known]:
        """What is known of each one, by name: what was asked last, and what was answered."""
        return self._listed({"all": "true"})

    def _listed(self, query: Mapping[str, str]) -> dict[str, Known]:
        found: dict[str, Known] = {}
        path, place = path_of(self.word, self.step), {"limit": PAGE}
        while True:
            said = self.http.request("GET", path, query={**query, **place})
            found |= {each["name"]: _known(each) for each in said[self.word]}
            if said["next"] is None:
                return found
            place["after"] = said["next"]

    def _request(self, method: str, name: str, timeout: Duration, body: Any = None) -> Any:
        path = path_of(self.word, self.step, name)
        return self.http.request(method, path, query=_waiting(timeout), body=body)


@checked
class AlertsOf:
    """The alerts of a step, as `riverrun.alerting.Alerts` has them."""

    def __init__(self, http: Http, step: str) -> None:
        self.http, self.step = http, step

    def __repr__(self) -> str:
        return f"<alerts of {self.step} at {self.http.url}>"

    def standing(self) -> list[Standing]:
        """The groups that stand, the oldest first."""
        return [_standing(each) for each in self._all()["alerts"]]

    def silences(self) -> list[dict[str, Any]]:
        """Those that hold now."""
        return list(self._all()["silences"])

    def acknowledge(
        self,
        alert: str,
        *,
        by: str | None = None,
        comment: str | None = None,
        timeout: Duration = WAIT,
    ) -> tuple[Standing, bool]:
        """Nobody else is called, and nothing repeated, until it is over. Without `by` it is who
        has the token. Gives the alert, and whether that is in effect: else it is when the job runs
        next."""
        said = self._say("ack", timeout, alert=alert, by=by, comment=comment)
        effect = bool(said.pop("in_effect"))
        return _standing(said), effect

    def silence(
        self,
        *matchers: str,
        lasts: Duration,
        by: str | None = None,
        comment: str | None = None,
        timeout: Duration = WAIT,
    ) -> tuple[str, bool]:
        """Tell nothing of groups for a time. Gives the id of the silence, and whether it is in
        effect."""
        long = duration_text(microseconds(lasts, "lasts"))
        given = names("matchers", matchers, '"service=pay"')
        said = self._say("silence", timeout, matchers=given, lasts=long, by=by, comment=comment)
        return said["id"], said["in_effect"]

    def unsilence(self, id: str, *, timeout: Duration = WAIT) -> bool:
        """Ends a silence."""
        return bool(self._say("unsilence", timeout, id=id)["in_effect"])

    def _all(self) -> Any:
        return self.http.request("GET", path_of("alerts", self.step))

    def _say(self, word: str, timeout: Duration, **given: Any) -> Any:
        body = {name: part for name, part in given.items() if part is not None}
        path = path_of("alerts", self.step, word)
        return self.http.request("POST", path, query=_waiting(timeout), body=body)


def _waiting(timeout: Duration) -> dict[str, str]:
    return {"wait": f"{microseconds(timeout, 'timeout') / 1e6:f}"}


def _known(said: Mapping[str, Any]) -> Known:
    return Known(**{name: said[name] for name in Known.__dataclass_fields__})


def _standing(said: dict[str, Any]) -> Standing:
    own = {name: said.pop(name) for name in ("step", "group", "alert", "silenced")}
    return Standing(facts=said, **own)
