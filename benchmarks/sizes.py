"""The size of a run: full for measurements, tiny for a test that a benchmark runs."""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "BENCHMARK_SIZE"  # a variable, so that child processes have the same size
TINY = "tiny"

T = TypeVar("T")


def is_tiny() -> bool:
    """Whether this process runs benchmarks at tiny size."""
    return os.environ.get(VARIABLE) == TINY


def sized(full: T, *, tiny: T) -> T:
    """Choose the value for the size of this process."""
    return tiny if is_tiny() else full
