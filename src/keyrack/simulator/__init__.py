"""Simulations: a virtual fleet, demo data, and weeks of offline keys.

Entry: the package itself, `demo` and `offline`.
Must not: use anything but the public API against a running server. `demo` alone writes rows.
"""

from __future__ import annotations

import asyncio
import threading
import time

from keyrack.core.api_client.responses import ApiError
from keyrack.simulator.client import SimulatorCredentials
from keyrack.simulator.expected_state import SimulationSummary
from keyrack.simulator.fleet import simulate
from keyrack.simulator.unit import FAULTS, SimulatorOptions

__all__ = [
    "FAULTS",
    "ApiError",
    "SimulationSummary",
    "SimulatorCredentials",
    "SimulatorOptions",
    "drive_in_background",
    "simulate",
]

A_YEAR = 60.0 * 24 * 365


def drive_in_background(access: SimulatorCredentials, cars: int = 12) -> threading.Thread:
    """Drive the first cars in real time until the process ends; restart after errors of the server.

    `keyrack simulate` uses the last cars, so both can share a fleet.
    """

    def drive() -> None:
        while True:
            try:
                asyncio.run(
                    simulate(access, SimulatorOptions(cars=cars, minutes=A_YEAR, every=5, live=True, first=True))
                )
            except ApiError:
                time.sleep(5)

    thread = threading.Thread(target=drive, name="virtual fleet", daemon=True)
    thread.start()
    return thread
