"""The cost of parsing a text, in executed lines of Python.

It does not depend on the machine's load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

MOST = 150_000  # lines for one query string, about 20 ms


def steps(work: Callable[[], object]) -> int:
    """Count the lines of Python that the work executes in this thread."""
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
