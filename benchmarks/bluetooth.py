"""A first conversation over Bluetooth: the time that fragments take on a virtual link with a round trip.

The box and the phone are the references in Python, over bumble. A radio that loses packets or shares its time takes
longer: this is a lower bound.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from tests.offline_keys.bumble_box import BumbleBox, BumblePhone, Driver, VirtualLink
from tests.offline_keys.phone_world import World

from benchmarks.sizes import sized
from benchmarks.tables import row, table

ROUND_TRIP = sized(0.030, tiny=0.001)  # seconds; a connection interval of 15 ms in each direction
RUNS = sized(7, tiny=1)
GOALS = {23: "2.5", 185: "", 247: "0.5"}  # seconds, with response


@dataclass
class Conversation:
    """The figures of one run."""

    connect: float  # seconds from the advertisement to the value of `size`
    talk: float  # seconds from the first hello to the last entry
    packets: int


async def run(mtu: int, *, with_response: bool) -> Conversation:
    """Connect, and have a conversation: hello, a list, hello, open, the whole log."""
    link = VirtualLink(ROUND_TRIP / 2)
    box = BumbleBox(link, World())
    await box.start()
    box.world.seconds_pass(5)  # so that the driver brings a newer list
    phone = await BumblePhone(link, 0, with_response=with_response).start()
    driver, found = Driver(box.world), await phone.find()
    begin = time.perf_counter()
    await phone.connect(mtu, found)
    connected, packets = time.perf_counter(), link.packets
    await driver.converse(phone)
    assert box.world.effects == ["OPEN"]
    return Conversation(connected - begin, time.perf_counter() - connected, link.packets - packets)


def main() -> None:
    """Print the table of benchmarks/results.md, "Offline keys over Bluetooth"."""
    table(
        "bluetooth conversation",
        "ATT_MTU",
        "connection and discovery, s",
        "conversation with response, s",
        "goal",
        "packets",
        "without response, s",
        "packets",
    )
    for mtu, goal in GOALS.items():
        runs = {way: [asyncio.run(run(mtu, with_response=way)) for _ in range(RUNS)] for way in (True, False)}
        connect = statistics.median(each.connect for each in runs[True])
        talk, quick = (statistics.median(each.talk for each in runs[way]) for way in (True, False))
        packets, fewer = runs[True][0].packets, runs[False][0].packets
        row(mtu, f"{connect:.2f}", f"**{talk:.2f}**", goal, packets, f"{quick:.2f}", fewer)
