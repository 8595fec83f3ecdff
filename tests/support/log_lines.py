"""Complete lines of a log file that a live process still writes.

A reader may come between two writes of one line, so the text after the last line end is ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


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
