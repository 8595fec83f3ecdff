"""A client of a stream of live updates."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.support.people import Person, http_client
from tests.support.servers import eventually


class Watcher:
    """The received lines of a stream, and how it ended."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.lines: list[str] = []
        self.end = ""  # "whole" or "broken" after the end
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self.answer.iter_lines():
                self.lines.append(line)
            self.end = "whole"
        except (httpx.TransportError, httpx.StreamError):
            self.end = "broken"

    @property
    def events(self) -> list[str]:
        return [line.removeprefix("event: ") for line in list(self.lines) if line.startswith("event: ")]

    @property
    def last_id(self) -> str:
        return [line.removeprefix("id: ") for line in list(self.lines) if line.startswith("id: ")][-1]

    def hears(self, *events: str) -> None:
        """Wait until these events have arrived."""
        eventually(lambda: set(events) <= set(self.events), f"{events}, beside {self.events}")

    def ends(self) -> str:
        """Wait for the end, and return "whole" or "broken"."""
        return eventually(lambda: self.end, "the end of the stream")


@contextmanager
def watching(person: Person, query: str = "", *, url: str = "", **headers: str) -> Iterator[Watcher]:
    """Open a stream of the person, at another server's address if given."""
    address = f"{url}/v3/live{query}" if url else f"/live{query}"
    options: dict[str, Any] = {"headers": person.headers | headers}
    client = http_client(base_url=person.client.base_url)
    try:
        with client.stream("GET", address, **options) as answer:
            assert answer.status_code == 200, answer.read()
            watcher = Watcher(answer)
            eventually(lambda: watcher.lines, "the beginning of the stream")
            yield watcher
            if not watcher.end:  # end the stream first, because the client cannot be closed while it waits
                with suppress(OSError):
                    answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
                watcher.ends()
    finally:
        client.close()
