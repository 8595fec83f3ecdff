"""A bridge from pages of the drivers' app to simulated boxes.

A browser cannot reach a simulated radio. So the server of a demo passes on what a page sends, over a Unix socket: one
request and one reply, each a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.core.base64url import base64url, octets
from keyrack.simulator.client import FleetClient, SimulatorCredentials
from keyrack.simulator.doors import Doors
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.radio import FragmentLink, Heard, Radio, RadioConditions, is_initial

# Fewer faults than in a garage, because an opening in a demo may be the user's first one
QUIET = RadioConditions(
    att_mtus=(185, 247), losses=0.002, disconnects=0.002, delays=0.01, longest_delay=800, busy=0.005
)
LONGEST_LINE = 8_192  # bytes of a request
RETRY_SECONDS = 5

Reply = Mapping[str, Any]
NOT_HEARD: Reply = {"link": None, "size": 0, "fragments": []}


@dataclass(frozen=True, slots=True)
class _NearbyBox:
    box: VirtualBox
    radio: Radio


class RadioBridge:
    """The simulated boxes of one customer, and their links."""

    def __init__(
        self,
        customer: int,
        boxes: Sequence[VirtualBox],
        conditions: RadioConditions = QUIET,
        random: Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        random = random or Random()  # noqa: S311 - it draws faults
        self._customer, self._clock = customer, clock
        self._boxes = [_NearbyBox(box, Radio(conditions, random)) for box in boxes]
        self._links: dict[str, FragmentLink] = {}  # by the secret of the page

    async def answer(self, request: Mapping[str, Any]) -> Reply:
        """The reply to a page.

        The names that boxes advertise, without a `name`. With one, the page connects, or writes a `fragment` on its
        `link`, or leaves the link if there is no fragment.
        """
        if self._customer not in request["customers"]:
            return {"names": []} if request["name"] is None else NOT_HEARD
        if request["name"] is None:
            return {"names": sorted(self._advertised())}
        if request["link"] is None:
            return self._connect(request["name"])
        if request["fragment"] is None:
            return self._disconnect(request["link"])
        return await self._write(request["link"], octets(request["fragment"]))

    def _advertised(self) -> dict[str, _NearbyBox]:
        self._end_late_links()
        at = int(self._clock())
        names = ((nearby.box.advertised_name(at), nearby) for nearby in self._boxes)
        return {name: nearby for name, nearby in names if name is not None}

    def _connect(self, name: str) -> Reply:
        nearby = self._advertised().get(name)
        if nearby is None:
            return NOT_HEARD
        at = self._clock()
        link = nearby.box.join(int(at), nearby.radio.now(at))
        if link is None:
            return NOT_HEARD
        secret = secrets.token_urlsafe(16)
        self._links[secret] = FragmentLink(nearby.radio, nearby.box, link, nearby.radio.size())
        return {"link": secret, "size": self._links[secret].size, "fragments": []}

    async def _write(self, secret: str, fragment: bytes) -> Reply:
        if is_initial(fragment):  # time passes between messages
            self._end_late_links()
        link = self._links.get(secret)
        if link is None:
            return NOT_HEARD
        heard: Heard = link.write(fragment, self._clock())
        if heard.has_ended:
            self._disconnect(secret)
        await asyncio.sleep(heard.milliseconds / 1_000)
        fragments = [base64url(each) for each in heard.fragments]
        return {"link": None if heard.has_ended else secret, "size": link.size, "fragments": fragments}

    def _disconnect(self, secret: str) -> Reply:
        link = self._links.pop(secret, None)
        if link is not None:
            link.box.disconnect(link.link)
        return NOT_HEARD

    def _end_late_links(self) -> None:
        """Forget the links that a box keeps no longer."""
        at = self._clock()
        for nearby in self._boxes:
            for late in nearby.box.end_late_links(nearby.radio.now(at)):
                ended = (each for each, link in self._links.items() if link.box is nearby.box and link.link == late)
                for secret in list(ended):
                    del self._links[secret]


async def serve(bridge: RadioBridge, path: Path) -> asyncio.Server:
    """Serve the bridge at a Unix socket."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await bridge.answer(json.loads(await reader.readline()))
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        finally:
            writer.close()

    return await asyncio.start_unix_server(respond, path, limit=LONGEST_LINE)


@contextmanager
def private_socket() -> Generator[Path]:
    """A path for the socket, in a private directory.

    The path of the state directory may be longer than the path of a socket may be.
    """
    with tempfile.TemporaryDirectory(prefix="keyrack-radio-") as directory:
        yield Path(directory) / "socket"


def bridge_in_background(access: SimulatorCredentials, names: Sequence[str], path: Path) -> threading.Thread:
    """Enrol the boxes of these cars, then serve the bridge."""

    async def run() -> None:
        async with FleetClient(access) as client:
            doors = Doors(client, access, QUIET)
            cars = [row["id"] for row in await client.rows("/cars") if row["name"] in names]
            enrolled = [await doors.box_of(car, int(time.time())) for car in cars]
        boxes = [each[1] for each in enrolled if each is not None]
        server = await serve(RadioBridge(access.customer, boxes), path)
        await server.serve_forever()

    def repeat() -> None:
        while True:
            try:
                asyncio.run(run())
            except ApiError:
                time.sleep(RETRY_SECONDS)

    thread = threading.Thread(target=repeat, name="radio bridge", daemon=True)
    thread.start()
    return thread
