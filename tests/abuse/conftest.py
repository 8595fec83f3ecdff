"""The attacks of `make test-abuse`: each uses a separate server, and figures are printed with their goals."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

collect_ignore_glob = [] if os.environ.get("KEYRACK_ABUSE") else ["test_*.py"]


class Figure(NamedTuple):
    what: str
    value: float
    unit: str
    goal: str
    met: bool


class Figures:
    """The figures that the attacks measured."""

    def __init__(self) -> None:
        self.rows: list[Figure] = []

    def at_most(self, what: str, value: float, unit: str, goal: float) -> None:
        """Add a figure that should be low. `what` begins with its point, as in "B1 answer"."""
        self.rows.append(Figure(what, value, unit, f"<= {goal:g}", value <= goal))

    def at_least(self, what: str, value: float, unit: str, goal: float) -> None:
        """Add a figure that should be high."""
        self.rows.append(Figure(what, value, unit, f">= {goal:g}", value >= goal))


FIGURES = Figures()


@pytest.fixture
def figures() -> Figures:
    return FIGURES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not FIGURES.rows:
        return
    terminalreporter.section("figures")
    for row in sorted(FIGURES.rows):
        met = "met" if row.met else "MISSED"
        terminalreporter.write_line(f"{row.what:<70} {row.value:>12,.2f} {row.unit:<8} {row.goal:>10}  {met}")
