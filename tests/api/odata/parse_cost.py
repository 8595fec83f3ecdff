"""In charge of what a text costs to read: lines of Python that ran, as many on a busy machine as on a quiet one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

MOST = 150_000  # lines for one text of an address: some 20 ms


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python the work runs in this thread, however long each of them takes."""
    count = 0

    def traced(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
