"""The simulated radio of a demo, for pages of the app.

The simulator serves the boxes at a Unix socket: one request and one reply, each a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keyrack.core.base64url import base64url

LONGEST_REPLY = 65_536  # bytes
TIMEOUT_SECONDS = 10


async def names(socket: Path, customers: Iterable[int]) -> list[str]:
    """The names that boxes near the driver advertise."""
    reply = await _ask(socket, {"customers": sorted(customers), "name": None})
    return [] if reply is None else reply["names"]


async def exchange(
    socket: Path, customers: Iterable[int], name: str, link: str | None, fragment: bytes | None
) -> dict[str, Any]:
    """Connect to a box, write a fragment, or end a link.

    Without a `link` it connects, and without a `fragment` it ends the link. The reply has no link if there is none any
    more, or if no such box is near.
    """
    text = None if fragment is None else base64url(fragment)
    request = {"customers": sorted(customers), "name": name, "link": link, "fragment": text}
    return await _ask(socket, request) or {"link": None, "size": 0, "fragments": []}


async def _ask(socket: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """The reply of the simulator. None before it serves the boxes."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_unix_connection(socket, limit=LONGEST_REPLY)
            try:
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    return json.loads(line) if line else None
