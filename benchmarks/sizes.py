"""The size of a run: full for figures, tiny to show that a benchmark runs."""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "BENCHMARK_SIZE"  # a variable, as the processes that a benchmark starts have the same size
TINY = "tiny"

T = TypeVar("T")


def is_tiny() -> bool:
    """Whether this process runs benchmarks at tiny size."""
    return os.environ.get(VARIABLE) == TINY


def sized(full: T, *, tiny: T) -> T:
    """The value for the size of this process."""
    return tiny if is_tiny() else full
