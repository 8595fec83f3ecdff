"""A fleet manager who changes assignments by the API; accepted changes go into the expected rights."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.simulator.offline.expected_state import AcceptedAssignment
from keyrack.simulator.offline.world import World, written

HOUR, DAY = 3_600, 86_400
LIFETIMES = ((7 * DAY, None), (7 * DAY, DAY), (10 * DAY, None), (14 * DAY, 2 * DAY))  # lifetime and renewableAfter


class NotDone(ApiError):
    """An operation failed for a legitimate reason.

    An example is a longer assignment after the box's service has ended.
    """


class Manager:
    """Creates, changes and ends assignments."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def car(self, name: str) -> int:
        return (await self._world.client.write("PUT", "/cars", {"name": name}))["id"]

    async def user(self, number: int) -> int:
        data = {"firstName": "Kim", "lastName": f"Driver {number}"}
        value = {"emailAddress": f"garage.{self._world.operator.customer}.{number}@example.org", "userData": data}
        return (await self._world.client.write("PUT", "/users", value))["id"]

    async def install(self, product: int, car: int) -> None:
        await self._world.client.write("PUT", "/installations", {"carId": car, "productId": product})

    async def take_out(self, product: int, car: int) -> None:
        """Take a box out of its car, which ends the assignments of that car."""
        await self._world.client.write("DELETE", "/installations", {"carId": car, "productId": product})
        self._world.ledger.books.take_out(product, self._world.at)

    async def assign(self, car: int, user: int, start: int, end: int | None) -> AcceptedAssignment:
        """Assign a car to a user. Raises `ApiError`."""
        world = self._world
        lifetime, renewable_after = world.random.choice(LIFETIMES)
        wanted: dict[str, Any] = {"carId": car, "userId": user, "start": written(start)}
        wanted |= {} if end is None else {"end": written(end)}
        wanted |= {} if lifetime == 7 * DAY else {"lifetime": lifetime}
        wanted |= {} if renewable_after is None else {"renewableAfter": renewable_after}
        assignment = await self._ask("PUT", "/assignments", wanted)
        renewable_after = lifetime // 2 if renewable_after is None else renewable_after
        grant = AcceptedAssignment(assignment, car, user, start, end, lifetime, renewable_after)
        world.ledger.books.put(grant, world.at)
        return grant

    async def _ask(self, method: str, path: str, value: Any = None) -> int:
        """Request an operation, and wait for it. Returns the assignment. Raises `ApiError` if the operation fails."""
        client, body = self._world.client, None if value is None else json.dumps(value).encode()
        answer = await client.call(method, path, body, {"Content-Type": "application/json"})
        answer.checked()
        operation = f"/operations/{answer.headers['Operation-Id']}"
        operation_row = await client.get(operation)
        while operation_row["state"] == "Pending":
            await asyncio.sleep(0.01)
            operation_row = await client.get(operation)
        if operation_row["state"] != "Succeeded":
            raise NotDone(operation_row["errorMessage"])
        return operation_row["assignmentId"]

    async def change(self, grant: AcceptedAssignment, **changes: int | None) -> None:
        """Change an assignment: `car`, `user`, `start` or `end`. Raises `ApiError`."""
        names = {"car": "carId", "user": "userId"}
        patch: list[dict[str, Any]] = []
        for name, value in changes.items():
            path = "/" + names.get(name, name)
            if value is None:
                patch.append({"op": "remove", "path": path})
            else:
                patch.append({"op": "replace", "path": path, "value": value if name in names else written(value)})
        await self._ask("PATCH", f"/assignments/{grant.id}", patch)
        self._world.ledger.books.put(replace(grant, **changes), self._world.at)

    async def end(self, grant: AcceptedAssignment) -> None:
        await self._ask("DELETE", f"/assignments/{grant.id}")
        self._world.ledger.books.end(grant.id, self._world.at)

    async def remove_phone(self, user: int, phone: str) -> None:
        await self._world.client.write("DELETE", f"/users/{user}/devices/{phone}")
        self._world.ledger.books.remove_phone(phone, self._world.at)

    async def decide(self) -> None:
        """Do one random action of a manager. Raises `NotDone`."""
        world, random = self._world, self._world.random
        grants = list(world.ledger.books.grants.values())
        fitted = [box.car for box in world.ledger.books.boxes.values() if box.car is not None and box.is_served]
        action = random.choice(("give", "give", "extend", "shorten", "move", "user", "put off", "end"))
        if action == "give" or not grants:
            start = world.at + random.choice((0, -DAY, random.randrange(4 * DAY)))
            end = random.choice((None, world.at + random.randrange(HOUR, 14 * DAY)))
            end = None if end is None else max(start, end)
            await self.assign(random.choice(fitted), random.choice(world.users), start, end)
            world.happens("assignments given")
            return
        grant = random.choice(grants)
        if action == "end":
            await self.end(grant)
            world.happens("assignments ended")
            return
        later = max(grant.start, world.at) + random.randrange(HOUR, 10 * DAY)
        match action:
            case "extend":
                await self.change(grant, end=random.choice((None, max(later, grant.end or 0))))
            case "shorten":
                await self.change(grant, end=max(grant.start, world.at + random.randrange(-HOUR, 2 * DAY)))
            case "put off":
                start = max(grant.start, world.at) + random.randrange(HOUR, 2 * DAY)
                await self.change(grant, start=start, end=None if grant.end is None else max(start, grant.end))
            case "move":
                await self.change(grant, car=random.choice(fitted))
            case _:
                await self.change(grant, user=random.choice(world.users))
        world.happens("assignments changed")
