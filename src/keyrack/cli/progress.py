"""Progress of long work on standard error: a moving line on a terminal, else a plain line every few seconds.

Standard output is unaffected, and short work prints nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

EVERY = 10.0  # seconds between two lines without a terminal


class ProgressReporter(Protocol):
    """A callback for progress: a text, and numbers if the total is known."""

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None: ...


@contextmanager
def progress() -> Generator[ProgressReporter]:
    """A reporter of progress for the duration of the block."""
    if sys.stderr.isatty():
        with _moving() as tell:
            yield tell
    else:
        yield _lines()


@contextmanager
def _moving() -> Generator[ProgressReporter]:
    from rich.console import Console  # a dependency of Typer, slow to import
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("", total=None)

        def tell(text: str, done: float | None = None, total: float | None = None) -> None:
            display.update(task, description=text, completed=done or 0, total=total)

        yield tell


def _lines() -> ProgressReporter:
    last = time.monotonic()

    def tell(text: str, done: float | None = None, total: float | None = None) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            share = f" ({done / total:.0%})" if done is not None and total else ""
            print(f"{text}{share}", file=sys.stderr, flush=True)
            last = time.monotonic()

    return tell
