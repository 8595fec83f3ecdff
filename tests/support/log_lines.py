"""Log lines: complete ones of a file that is still written, and those that a test expects.

A reader may come between two writes of one line. So the text after the last line end is ignored. The process of a test
has servers of other tests, which log at any time. So a test names its events.
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
    """Return the complete lines of the file, or none without the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    return content[: content.rfind(b"\n") + 1].decode().splitlines()


def log_events(path: Path, event: str | None = None) -> list[dict[str, Any]]:
    """Return the JSON objects among these lines, only those of `event` if given."""
    events = [json.loads(line) for line in log_lines(path) if line.startswith("{")]
    return [line for line in events if event is None or line["event"] == event]


@contextmanager
def captured_events(*events: str) -> Generator[list[MutableMapping[str, Any]]]:
    """Capture the log lines of these events within the context."""

    def drop_others(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if line["event"] not in events:
            raise DropEvent
        return line

    with capture_logs(processors=[drop_others]) as lines:
        yield lines
