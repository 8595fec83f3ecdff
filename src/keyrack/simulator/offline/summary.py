"""In charge of the figures of simulated weeks: what was tried, what came of it, and what must be nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from keyrack.offline_keys.refusal_codes import BoxRefusalCode

OWNER = "owners"  # who tries to open, and is no thief
MADE_KEY = "a key made by a stolen issuing key"
REPORTS = {
    "Break": "reports of a break in a log",
    "Forgery": "reports of a forgery in a log",
    "Fork": "reports of a fork in a log",
    "GivenUp": "reports of entries that a box has given up",
    "UnknownKey": "reports of an opening by a key that was never issued",
    "UnknownList": "reports of a list that the server has not signed",
}
WRONG = 10  # lines of each kind that are shown


@dataclass(slots=True)
class ScenarioSummary:
    """Figures of one simulation; times are seconds."""

    weeks: float
    limit: int | None
    opens_uncertain: bool
    began: int = 0  # seconds since 1970
    opened: int = 0  # by owners; closed too
    owed: int = 0  # what must not be refused
    refused: Counter[str] = field(default_factory=Counter[str])  # by code
    tries: Counter[str] = field(default_factory=Counter[str])  # of thieves, by what they do
    gains: Counter[str] = field(default_factory=Counter[str])  # of these, doors that opened, within the windows
    happened: Counter[str] = field(default_factory=Counter[str])  # what else went on, and went wrong
    carried: int = 0
    not_taken: int = 0
    uncertain: int = 0  # openings while the clock was uncertain
    events: int = 0
    reports: Counter[str] = field(default_factory=Counter[str])
    longest: int = 0  # after its revocation that a key still opened
    longest_bound: int = 0  # what that key could have opened until
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
        """A key that was revoked so many seconds ago has opened; it could do so for `bound` seconds."""
        if after > self.longest:
            self.longest, self.longest_bound = after, bound

    @property
    def is_good(self) -> bool:
        return not (self.without_right or self.rights_refused or self.disagreements)

    def shown(self) -> dict[str, Any]:
        """For programs."""
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
        """For people."""
        limit = "off" if self.limit is None else ago(self.limit)
        yield _line(f"{self.weeks:g}", f"weeks, freshness limit {limit}")
        yield _line(self.opened, "times opened and closed by whose right it was")
        yield _line(self.owed, "times that must not be refused: the phone had met the server lately enough")
        yield _line(self.uncertain, "times opened while the clock was uncertain")
        for name, count in sorted(self.happened.items()):
            yield _line(count, name)
        yield _line(sum(self.tries.values()), "attempts of thieves; what each kind got within the documented windows:")
        for name, count in sorted(self.tries.items()):
            yield _line(count, f"  {name}: opened {self.gains[name]}")
        yield _line(sum(self.refused.values()), "refusals, by code:")
        for code, count in self.refused.most_common():
            yield _line(count, f"  {code}")
        yield _line(self.events, "events at the server")
        for kind, count in sorted(self.reports.items()):
            yield _line(count, REPORTS.get(kind, f"reports of {kind}"))
        longest = f"was the longest that a revoked key still opened; it could have for {ago(self.longest_bound)}"
        yield _line(ago(self.longest), longest if self.longest else "was the longest that a revoked key still opened")
        yield ""
        yield _line(len(self.without_right), "openings without right outside of the documented windows")
        yield _line(len(self.rights_refused), "rights refused")
        yield _line(len(self.disagreements), "disagreements between boxes, ledger and server")
        for wrong in (self.without_right, self.rights_refused, self.disagreements):
            yield from wrong[:WRONG]


def ago(seconds: int) -> str:
    """`3d 04:05:06`"""
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3_600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}d {clock}" if days else clock


def _line(figure: object, words: str) -> str:
    return f"{figure:>12}  {words}"
