"""In charge of what a box can know, as docs/keys.md has it: how wrong its clock may be, and how old its list is.

It is worked out from what was done to the box and from the true time alone, never from what the box says.
"""

from __future__ import annotations

from dataclasses import dataclass

QUARTER = 900  # seconds after which a box writes its time down
ROUNDING = 2  # seconds: of ticks, and of times without fractions


@dataclass(slots=True)
class Knowledge:
    """Of one box in its epoch. The clock is slow by `least` to `most` seconds at the true time `at`."""

    name: str
    rate: float  # what its clock gains in a second
    at: int
    least: float = 0.0
    most: float = 0.0
    is_certain: bool = True
    listed: int = 0  # iat of its list
    sequence: int = 0  # of its key set
    forged: int = 0  # iat of the list that it has of a stolen issuing key; 0 for none
    off: int | None = None  # since when it has no power

    def slow(self, at: int) -> tuple[float, float]:
        """By how many seconds its clock is slow now, at least and at most; negative ones are fast."""
        gained = self.rate * (at - self.at)
        return self.least - gained, self.most - gained

    def error(self, at: int) -> int:
        """Seconds that the clock may be slow by, beside the tolerance."""
        return int(max(0.0, self.slow(at)[1])) + ROUNDING

    def haste(self, at: int) -> int:
        """Seconds that the clock may be fast by."""
        return int(max(0.0, -self.slow(at)[0])) + ROUNDING

    def hear(self, iat: int, at: int) -> None:
        """Something signed was taken: its clock is at least there."""
        least, most = self.slow(at)
        self._put(at, min(least, at - iat), min(most, at - iat))

    def may_hear(self, iat: int, at: int) -> None:
        """Something signed has come, and it is not known whether it was taken."""
        least, most = self.slow(at)
        self._put(at, min(least, at - iat), most)

    def set(self, iat: int, at: int) -> None:
        """A time, or a provisioning, in answer to its nonce."""
        self._put(at, at - iat, at - iat)
        self.is_certain = True

    def lose_power(self, at: int) -> None:
        self.off = at

    def get_power(self, at: int, *, stood: bool) -> None:
        assert self.off is not None  # noqa: S101 - it has lost it
        least, most = self.slow(at if not stood else self.off)
        if stood:
            least, most = least + at - self.off, most + at - self.off + QUARTER
            self.is_certain = False
        self._put(at, least - ROUNDING, most + ROUNDING)
        self.off = None

    def agrees(self, said: int, at: int) -> bool:
        """Whether a box may say so of the time."""
        least, most = self.slow(at)
        return least - ROUNDING <= at - said <= most + ROUNDING

    def _put(self, at: int, least: float, most: float) -> None:
        self.at, self.least, self.most = at, least, most
