"""The results of a simulation: attempts, outcomes, and counts that must be zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from keyrack.offline_keys.refusal_codes import BoxRefusalCode

OWNER = "owners"  # attempts by users with a right
MADE_KEY = "a key made by a stolen issuing key"
REPORTS = {
    "Break": "reports of a break in a log",
    "Forgery": "reports of a forgery in a log",
    "Fork": "reports of a fork in a log",
    "GivenUp": "reports of entries that a box has given up",
    "UnknownKey": "reports of an opening by a key that was never issued",
    "UnknownList": "reports of a list that the server has not signed",
}
WRONG = 10  # listed lines of each kind


@dataclass(slots=True)
class ScenarioSummary:
    """The figures of one simulation; times are seconds."""

    weeks: float
    limit: int | None
    opens_uncertain: bool
    began: int = 0  # seconds since 1970
    opened: int = 0  # openings and closings by owners
    owed: int = 0  # attempts that must succeed
    refused: Counter[str] = field(default_factory=Counter[str])  # by code
    tries: Counter[str] = field(default_factory=Counter[str])  # attempts of attackers, by kind
    gains: Counter[str] = field(default_factory=Counter[str])  # successful ones, within the documented windows
    happened: Counter[str] = field(default_factory=Counter[str])  # other events
    carried: int = 0
    not_taken: int = 0
    uncertain: int = 0  # openings while the clock was uncertain
    events: int = 0
    reports: Counter[str] = field(default_factory=Counter[str])
    longest: int = 0  # longest time after its revocation at which a key still opened
    longest_bound: int = 0  # the documented bound for that key
    without_right: list[str] = field(default_factory=list[str])
    rights_refused: list[str] = field(default_factory=list[str])
    disagreements: list[str] = field(default_factory=list[str])

    def tried(self, by: str, code: BoxRefusalCode, *, is_done: bool) -> None:
        if by != OWNER:
            self.tries[by] += 1
            self.gains[by] += is_done
        elif is_done:
            self.opened += 1
        if not is_done:
            self.refused[code.text] += 1

    def revoked_opened(self, after: int, bound: int) -> None:
        """Record that a key opened `after` seconds after its revocation, within a bound of `bound` seconds."""
        if after > self.longest:
            self.longest, self.longest_bound = after, bound

    @property
    def is_good(self) -> bool:
        return not (self.without_right or self.rights_refused or self.disagreements)

    def shown(self) -> dict[str, Any]:
        """The result as JSON members."""
        return {
            "weeks": self.weeks, "limit": self.limit, "uncertain": "open" if self.opens_uncertain else "refuse",
            "opened": self.opened, "owed": self.owed, "openedUncertain": self.uncertain, "events": self.events,
            "happened": dict(self.happened), "carried": self.carried, "refused": dict(self.refused),
            "thieves": {name: {"tries": self.tries[name], "opened": self.gains[name]} for name in self.tries},
            "reports": dict(self.reports), "longestAfterRevocation": self.longest, "itsBound": self.longest_bound,
            "openedWithoutRight": self.without_right, "rightsRefused": self.rights_refused,
            "disagreements": self.disagreements,
        }  # fmt: skip

    def lines(self) -> Iterator[str]:
        """The result as text."""
        limit = "off" if self.limit is None else ago(self.limit)
        yield _line(f"{self.weeks:g}", f"weeks, freshness limit {limit}")
        yield _line(self.opened, "openings and closings by owners")
        yield _line(self.owed, "attempts that must succeed: the phone met the server recently enough")
        yield _line(self.uncertain, "openings with an uncertain clock")
        for name, count in sorted(self.happened.items()):
            yield _line(count, name)
        yield _line(sum(self.tries.values()), "attempts of attackers, with openings within the documented windows:")
        for name, count in sorted(self.tries.items()):
            yield _line(count, f"  {name}: opened {self.gains[name]}")
        yield _line(sum(self.refused.values()), "rejections by code:")
        for code, count in self.refused.most_common():
            yield _line(count, f"  {code}")
        yield _line(self.events, "events at the server")
        for kind, count in sorted(self.reports.items()):
            yield _line(count, REPORTS.get(kind, f"reports of {kind}"))
        longest = f"longest opening after a revocation; documented bound {ago(self.longest_bound)}"
        yield _line(ago(self.longest), longest if self.longest else "longest opening after a revocation")
        yield ""
        yield _line(len(self.without_right), "openings without a right outside the documented windows")
        yield _line(len(self.rights_refused), "valid attempts rejected")
        yield _line(len(self.disagreements), "disagreements between boxes, ledger and server")
        for wrong in (self.without_right, self.rights_refused, self.disagreements):
            yield from wrong[:WRONG]


def ago(seconds: int) -> str:
    """A duration such as `3d 04:05:06`."""
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {clock}" if days else clock


def _line(figure: object, words: str) -> str:
    return f"{figure:>12}  {words}"
