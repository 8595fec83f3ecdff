"""The API client of the simulator: reads, events and deliveries."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.core.api_client.credentials import Login, ServerAddress
from keyrack.core.api_client.session import Client


@dataclass(frozen=True, slots=True)
class SimulatorCredentials:
    """The server's address and the credentials of a simulation."""

    url: str
    api_key: str
    username: str
    password: str
    customer: int
    device_key: str
    brand: str = "vendor"
    sdk_key: str = ""  # for the users' apps; without it, no doors are opened by keys


class FleetClient(Client):
    """A session at the server, for a manager and the units of the cars."""

    def __init__(self, access: SimulatorCredentials) -> None:
        server = ServerAddress(access.url, access.api_key, access.customer, access.brand)
        super().__init__(server, Login(access.username, access.password))
        self._device_key = access.device_key

    async def put_event(self, event: dict[str, Any]) -> int:
        """Record an event exactly once, even after retries. Returns its number."""
        return (await self.write("PUT", "/events", event))["id"]

    async def deliver(self, path: str, values: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Deliver samples or events as JSON lines. Returns the report; repeated deliveries are harmless."""
        body = gzip.compress("\n".join(json.dumps(value) for value in values).encode(), compresslevel=1)
        headers = {
            "Device-Key": self._device_key,
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": "gzip",
        }
        return (await self.call("POST", path, body, headers, signed_in=False, repeatable=True)).checked()
