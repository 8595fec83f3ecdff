"""Moves under load, with a mover that is killed at random statements.

A customer moves there and back. Each command is killed at a random statement, and then repeated or undone. Meanwhile
clients write, follow the change feed and keep a log of all answers. At the end, the log is compared with the rows.

`make test-cell-moves` moves a customer a hundred times, the suite ten times.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from tests.ops.cells import killed_mover
from tests.ops.cells.conftest import RunningCell, TwoCells
from tests.ops.cells.load import Load, Log
from tests.support.servers import eventually
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster

MOVES = int(os.environ.get("KEYRACK_CELL_MOVES", "10"))
STATEMENTS = 800  # roughly those of a move
UNDONE = 0.2  # share of killed moves that are undone first


def test_a_customer_loses_nothing_when_movers_are_killed(cells: TwoCells) -> None:
    with Receiver() as receiver:
        alice = cells.main.town.person("alice")
        car, user = alice.car_with_box(), alice.user()
        assert alice.put("/webhooks", {"url": receiver.url}).status_code == 201
        load = Load(cells, alice, car, user)
        with load.running() as log:
            there, back = (cells.main, cells.east), (cells.east, cells.main)
            for number in range(MOVES):
                _move_with_kills(*(back if number % 2 else there), alice.customer)
        assert not log.errors
        assert log.both_writable == 0
        _compare_rows(load, log)
        _compare_outcomes(load, log, receiver)
        _compare_changes(load, log)
        print(f"{MOVES} moves, {len(log.cars)} cars, {len(log.operations)} operations, {len(log.changes)} changes")


def _move_with_kills(source: RunningCell, target: RunningCell, customer: int) -> None:
    """Move the customer. Each command is killed once, and repeated."""
    is_moved, _ = killed_mover.run("move", source, target, customer, random.randrange(1, STATEMENTS))
    if not is_moved and random.random() < UNDONE and _has_open_move(source, "copying", "held"):
        _complete("undo", source, target, customer)
    if not is_moved:
        assert killed_mover.run("move", source, target, customer, None)[0]
    _complete("finish", source, target, customer)


def _complete(step: str, source: RunningCell, target: RunningCell, customer: int) -> None:
    """Run a step that is killed, and complete it."""
    if _has_open_move(target, "switched") and step == "undo":
        return
    killed_mover.run(step, source, target, customer, random.randrange(1, STATEMENTS))
    if _has_open_move(source, "copying", "held", "switched"):
        assert killed_mover.run(step, source, target, customer, None)[0]


def _has_open_move(cell: RunningCell, *states: str) -> bool:
    return cell.sql.value("select exists (select from cell_move where state = any($1))", list(states))


def _compare_rows(load: Load, log: Log) -> None:
    """Every acknowledged write is there, and no rejected one."""
    caller = load.caller()
    cars = {row["id"]: row["name"] for row in caller.call("GET", "/cars").json()}
    assert {id: name for id, name in cars.items() if name != "Car"} == log.cars
    users = {row["id"]: row["emailAddress"] for row in caller.call("GET", "/users").json()}
    assert {id: address for id, address in users.items() if address.startswith("load")} == log.users
    (user,) = set(users) - set(log.users)
    assert caller.call("GET", f"/users/{user}?$select=externalId").json()["externalId"] == log.reference


def _compare_outcomes(load: Load, log: Log, receiver: Receiver) -> None:
    """Each accepted operation has one outcome, and the webhook has reported it."""

    def reported() -> dict[str, bool]:
        return {body["operationId"]: body["operationSucceeded"] for body in _messages(receiver)}

    eventually(lambda: log.operations <= reported().keys(), "the outcomes")
    assert reported().keys() == log.operations
    caller = load.caller()
    for operation, succeeded in reported().items():
        state = caller.call("GET", f"/operations/{operation}").json()["state"]
        assert (state == "Succeeded") == succeeded
    assert len(_messages(receiver)) == len(log.operations)


def _messages(receiver: Receiver) -> list[dict[str, Any]]:
    """The bodies of all messages. A repeated one is equal to the first."""
    bodies = {request.headers["webhook-id"]: request.body for request in receiver.messages()}
    for request in list(receiver.got):
        assert bodies.setdefault(request.headers["webhook-id"], request.body) == request.body
    return [json.loads(body) for body in bodies.values()]


def _compare_changes(load: Load, log: Log) -> None:
    """The feed has every number once, with unchanged content."""
    eventually(lambda: not load.read_changes(load.caller()), "the end of the feed")
    assert len(log.epochs) == 1
    assert sorted(log.changes) == list(range(min(log.changes), max(log.changes) + 1))
    seen, log.changes = log.changes, {}
    caller = load.caller()
    while load.read_changes(caller):
        pass
    assert log.changes == seen
