"""Lines of logs: complete ones of a file that a live process still writes, and those that a test expects.

A reader may come between two writes of one line, so the text after the last line end is ignored. The process of a test
has servers of other tests, which log whenever they like, so a test names the events that it is about.
"""

from __future__ import annotations

import json
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from structlog import DropEvent
from structlog.testing import capture_logs


def log_lines(path: Path) -> list[str]:
    """The complete lines of the file; none if the file does not exist yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return content[: content.rfind(b"\n") + 1].decode().splitlines()


def log_events(path: Path, event: str | None = None) -> list[dict[str, Any]]:
    """The JSON objects among these lines; with `event`, those of that event alone."""
    events = [json.loads(line) for line in log_lines(path) if line.startswith("{")]
    return [line for line in events if event is None or line["event"] == event]


@contextmanager
def captured_events(*events: str) -> Generator[list[MutableMapping[str, Any]]]:
    """The lines of these events that this process logs within the block."""

    def drop_others(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if line["event"] not in events:
            raise DropEvent
        return line

    with capture_logs(processors=[drop_others]) as lines:
        yield lines
