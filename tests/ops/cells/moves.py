"""Moves of a test, and managers that follow their customer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from keyrack.ops.cells import customer_move
from keyrack.ops.cells.customer_move import MovedCustomer
from keyrack.ops.cells.replication import Report
from keyrack.ops.cells.side import Side
from tests.ops.cells.conftest import RunningCell
from tests.support.people import Person, http_client, when_proven

T = TypeVar("T")


def ignore(step: Mapping[str, Any]) -> None:
    """A reporter of steps that prints nothing."""


def with_sides(
    source: RunningCell, target: RunningCell, customer: int, work: Callable[[Side, Side], Awaitable[T]]
) -> T:
    """Run `work` with both sides, as a command does."""

    async def run() -> T:
        cells = ((source.cell, source.dsn), (target.cell, target.dsn))
        async with customer_move.open_sides(*cells, customer) as sides:
            return await work(*sides)

    return asyncio.run(run())


def move(source: RunningCell, target: RunningCell, customer: int, report: Report = ignore) -> MovedCustomer:
    """Move a customer in this process."""
    return with_sides(
        source, target, customer, lambda one, other: customer_move.move_customer(one, other, customer, report)
    )


def finish(source: RunningCell, target: RunningCell, customer: int) -> None:
    with_sides(source, target, customer, lambda one, other: customer_move.finish_move(one, other, customer, ignore))


def undo(source: RunningCell, target: RunningCell, customer: int) -> None:
    with_sides(source, target, customer, lambda one, other: customer_move.undo_move(one, other, customer, ignore))


def signed_in(person: Person, at: RunningCell) -> Person:
    """The same manager, signed in again at this cell."""
    client = http_client(base_url=at.server.url + "/v3")
    form = {"username": person.username, "password": person.password, "grant_type": "password"}
    token = when_proven(lambda: client.post("/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key}))
    assert token.status_code == 200, token.text
    access = token.json()["access_token"]
    headers = person.headers | {"Authorization": f"Bearer {access}"}
    return replace(person, client=client, token=access, headers=headers, sql=at.sql)
