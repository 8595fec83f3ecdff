"""Simulated weeks of offline keys: boxes, phones, attackers and a server, in simulated time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import Database
from keyrack.offline_keys import timestamps
from keyrack.server.process import run_beside
from keyrack.simulator.offline.expected_state import Books
from keyrack.simulator.offline.operator_actions import Operator
from keyrack.simulator.offline.oracle import Ledger
from keyrack.simulator.offline.radio import GARAGE, Radio, RadioConditions
from keyrack.simulator.offline.scenario import Weeks
from keyrack.simulator.offline.summary import ScenarioSummary
from keyrack.simulator.offline.world import World

__all__ = ["ApiError", "Garage", "ScenarioSummary", "pass_weeks"]

HOUR = 3_600
MANY = 1_000_000  # limit of calls, which arrive at the pace of the simulation
# Rate limits in real time, which simulated calls would exceed
LIMITS = (
    "assignment_rate", "assignment_burst", "box_times_per_hour", "box_time_burst", "box_times_per_hour_per_user",
    "box_time_burst_per_user",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Garage:
    """The parameters of a simulation of offline keys."""

    weeks: float = 3.0
    cars: int = 6
    users: int = 12
    seed: int = 1
    limit: int | None = None  # seconds that a key is valid without news from the server; None: its lifetime
    opens_uncertain: bool = False
    radio: RadioConditions = GARAGE

    @property
    def seconds(self) -> int:
        return int(self.weeks * 7 * 24 * HOUR)


def pass_weeks(
    settings: Settings, dsn: str, garage: Garage, progress: Callable[[int], None] = lambda seconds: None
) -> ScenarioSummary:
    """Run the simulation in this process, with its own server on the database `dsn`. Raises `ApiError`.

    Meanwhile, offline keys in the whole process use the simulated time.
    """
    settings = settings.model_copy(update=dict.fromkeys(LIMITS, MANY))

    async def use(server_settings: Settings) -> ScenarioSummary:
        acting.set(operator())
        database = await Database.connect(dsn, server_settings, application="keyrack simulation")
        try:
            return await _pass(server_settings, database, garage, progress)
        finally:
            await database.close()

    return run_beside(settings, dsn, use)


async def _pass(settings: Settings, db: Database, garage: Garage, progress: Callable[[int], None]) -> ScenarioSummary:
    began = (int(time.time()) // HOUR + 1) * HOUR  # the real time must not end any assignment
    run = await Operator.begin(db, settings)
    summary = ScenarioSummary(garage.weeks, garage.limit, garage.opens_uncertain, began)
    ledger = Ledger(Books(garage.limit), garage.opens_uncertain, summary)
    random = Random(garage.seed)  # noqa: S311 - a seed makes it reproducible
    async with Client(run.server, run.login) as client:
        radio = Radio(garage.radio, Random(f"radio {garage.seed}"))  # noqa: S311 - a seed, too; it draws none of the numbers of the world
        world = World(began, random, client, run, ledger, radio)
        with timestamps.shown(world.clock):
            weeks = Weeks(world, garage.weeks)
            await weeks.begin(garage.cars, garage.users)
            await weeks.run(progress)
    return summary
