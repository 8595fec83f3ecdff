"""The possible state of a box by docs/keys.md: its clock error, and the age of its list.

It is derived only from actions on the box and from the true time, never from the box's answers.
"""

from __future__ import annotations

from dataclasses import dataclass

QUARTER = 900  # seconds between two writes of the time
ROUNDING = 2  # seconds: of ticks, and of times without fractions


@dataclass(slots=True)
class Knowledge:
    """The knowledge of one box in its epoch. At the true time `at`, the clock is `least` to `most` seconds slow."""

    name: str
    rate: float  # drift of its clock per second
    at: int
    least: float = 0.0
    most: float = 0.0
    is_certain: bool = True
    listed: int = 0  # `iat` of its list
    sequence: int = 0  # sequence of its key set
    forged: int = 0  # `iat` of its list signed by a stolen issuing key; 0 for none
    off: int | None = None  # start of a power failure

    def slow(self, at: int) -> tuple[float, float]:
        """The minimum and maximum seconds by which its clock is slow; negative values are fast."""
        gained = self.rate * (at - self.at)
        return self.least - gained, self.most - gained

    def error(self, at: int) -> int:
        """The maximum seconds by which the clock is slow, beside the tolerance."""
        return int(max(0.0, self.slow(at)[1])) + ROUNDING

    def haste(self, at: int) -> int:
        """The maximum seconds by which the clock is fast."""
        return int(max(0.0, -self.slow(at)[0])) + ROUNDING

    def hear(self, iat: int, at: int) -> None:
        """A signed message was accepted, so the clock is at least at its time."""
        least, most = self.slow(at)
        self._put(at, min(least, at - iat), min(most, at - iat))

    def may_hear(self, iat: int, at: int) -> None:
        """A signed message has arrived, and may or may not have been accepted."""
        least, most = self.slow(at)
        self._put(at, min(least, at - iat), most)

    def set(self, iat: int, at: int) -> None:
        """The clock was set by a time or provisioning that answers its nonce."""
        self._put(at, at - iat, at - iat)
        self.is_certain = True

    def lose_power(self, at: int) -> None:
        self.off = at

    def get_power(self, at: int, *, stood: bool) -> None:
        assert self.off is not None  # noqa: S101 - it lost power before
        least, most = self.slow(at if not stood else self.off)
        if stood:
            least, most = least + at - self.off, most + at - self.off + QUARTER
            self.is_certain = False
        self._put(at, least - ROUNDING, most + ROUNDING)
        self.off = None

    def agrees(self, said: int, at: int) -> bool:
        """Whether the box's time is within the known bounds."""
        least, most = self.slow(at)
        return least - ROUNDING <= at - said <= most + ROUNDING

    def _put(self, at: int, least: float, most: float) -> None:
        self.at, self.least, self.most = at, least, most
