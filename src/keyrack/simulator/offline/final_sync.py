"""The end of a simulation: deliver all logs, and compare the server's events with the boxes' actions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from keyrack.offline_keys.message_fields import OPEN
from keyrack.simulator.offline.manager import DAY, Manager
from keyrack.simulator.offline.oracle import BoxAction
from keyrack.simulator.offline.world import World, seconds

TYPES = {1: "CarOpened", 2: "CarClosed"}
AGENT, UNCERTAIN = "Keyrack key, ", ", clock uncertain"
UNKNOWN_LIST = "UnknownList"  # its number depends on the boxes' entries while they have such a list


async def bring_home(world: World, manager: Manager, product: int) -> None:
    """Deliver all of a box's log by a new user with an assignment, and collect the reports."""
    car = world.ledger.books.boxes[product].car
    assert car is not None  # noqa: S101 - every box is installed
    user = await manager.user(next(world.numbers))
    await manager.assign(car, user, world.at, world.at + DAY)
    phone = await world.new_phone(user)
    await world.meet(phone)
    (key,) = phone.keys.values()
    world.bring(phone, product)
    world.carry(product, await phone.time_for(world.challenge(product)))
    world.bring(phone, product)
    _, challenge, result = world.show(phone, product, key.raw, OPEN)
    phone.keep(world.boxes[product], challenge, result, world.at)
    world.boxes[product].leave()
    await phone.empty_pocket(world.random)
    await _reports(world, product)


async def check(world: World, manager: Manager) -> None:
    """Compare the boxes' actions with the server's events. Raises `ApiError`."""
    for product, box in world.boxes.items():
        if not box.is_on:
            box.get_power(world.at, stood=True)
            world.ledger.boxes[product].get_power(world.at, stood=True)
        if not world.ledger.books.boxes[product].is_served:
            await world.operator.serve(product, is_served=True)
            world.ledger.books.serve(product, world.at, is_served=True)
        await bring_home(world, manager, product)
        world.at += 60
    reported_actions: dict[str, list[BoxAction]] = {}
    rows = await world.client.rows("/events")
    for row in rows:
        reported_actions.setdefault(_box(row), []).append(_done(row))
    world.summary.events = len(rows)
    for name in sorted({*reported_actions, *world.ledger.done}):
        _compare(world, name, world.ledger.done.get(name, []), reported_actions.get(name, []))
    reports = {kind: count for kind, count in world.summary.reports.items() if kind != UNKNOWN_LIST}
    if reports != world.expected:
        world.summary.disagreements.append(f"forged in logs: {dict(world.expected)}, reported: {reports}")
    if world.poisoned and not world.summary.reports[UNKNOWN_LIST]:
        world.summary.disagreements.append("boxes accepted a thief's lists, but none was reported")


def _compare(world: World, name: str, done: list[BoxAction], reported_actions: list[BoxAction]) -> None:
    place = next(
        (place for place, (action, other) in enumerate(zip(done, reported_actions, strict=False)) if action != other),
        None,
    )
    if place is not None:
        where = f"action {place + 1} was {done[place]}, the server has {reported_actions[place]}"
    elif len(done) != len(reported_actions):
        where = f"{len(done)} actions, but {len(reported_actions)} events"
    else:
        return
    world.summary.disagreements.append(f"{name}: {where}")


async def _reports(world: World, product: int) -> None:
    """The server's reports on a box's log, after all of it was delivered."""
    state = await world.client.get(f"/boxes/{product}/enrolment")
    kinds = Counter(report["kind"] for report in state["log"]["reports"])
    world.summary.reports.update(kinds)
    if kinds[UNKNOWN_LIST] and product not in world.poisoned:
        world.summary.disagreements.append(f"{state['name']}: a list of the server was reported as unknown")
    if state["log"]["upTo"] != state["log"]["newest"]:
        world.summary.disagreements.append(f"{state['name']}: its log was not delivered completely")


def _box(row: dict[str, Any]) -> str:
    return row["userAgent"].removeprefix(AGENT).removesuffix(UNCERTAIN)


def _done(row: dict[str, Any]) -> BoxAction:
    command = next(command for command, type in TYPES.items() if type == row["type"])
    is_certain = not row["userAgent"].endswith(UNCERTAIN)
    return BoxAction(command, row["userId"], row["carId"], seconds(row["utcDateTime"]), is_certain)
