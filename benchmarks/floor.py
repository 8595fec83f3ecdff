"""The floor: a bare ASGI function with asyncpg and Keyrack's own SQL, without any check."""

from __future__ import annotations

import json
import sys
from typing import Any

import asyncpg
import uvicorn

from benchmarks import ACTOR
from keyrack.api.odata import Limits, query
from keyrack.core.settings import Settings
from keyrack.db.named_parameters import NamedStatement
from keyrack.db.session_settings import prepare, session
from keyrack.fleet.declarations import CARS, NewCar
from keyrack.http.routes import ALL

ASK = """
with c as (select car_id from car where customer_id = $1 and car_id = $2),
u as (select user_id from customer_user where customer_id = $1 and user_id = $3)
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select $1, 'CreateAssignment', c.car_id, u.user_id, $4, $5 from c, u returning operation_id
"""


def statement(path: str) -> NamedStatement:
    """The statement of a read from the table of endpoints."""
    read = next(row.read for row in ALL if row.method == "GET" and row.path == path)
    assert read is not None
    select = read.select
    plain = query(select.resource, b"", select.shape, alias="t", limits=Limits())
    return select.statement(plain.sql)


class Floor:
    """GET and PUT without keys, tenants or error handling."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn, self.settings = dsn, settings
        self.pool: Any = None
        self.car, self.cars = statement("/cars/{carId}"), statement("/cars")
        self.assignments = statement("/cars/{carId}/assignments")
        self.bounds = {"rows": settings.list_chunk_rows, "size": settings.list_chunk_bytes}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self.pool = await asyncpg.create_pool(
                self.dsn,
                init=prepare,
                server_settings=session(self.settings) | {"application_name": "floor", "keyrack.who": ACTOR},
            )
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        parts = scope["path"].split("/")  # /customer/resource/id/...
        customer = int(parts[1])
        if scope["method"] == "PUT":
            status, body = 201, await self.write(customer, parts[2], json.loads((await receive())["body"]))
        else:
            status, body = 200, await self.read(customer, parts[2:])
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def read(self, customer: int, parts: list[str]) -> bytes:
        if len(parts) == 1:
            found, values = self.cars, self.cars.arguments(customer=customer, **self.bounds)
        elif len(parts) == 2:
            found, values = self.car, self.car.arguments(customer=customer, id0=int(parts[1]))
        else:
            found = self.assignments
            values = found.arguments(customer=customer, id0=int(parts[1]), **self.bounds)
        return (await self.pool.fetchrow(found.sql, *values))[0]

    async def write(self, customer: int, what: str, body: Any) -> bytes:
        if what == "cars":
            car = NewCar.model_construct(name=body["name"])
            id = await self.pool.fetchval(CARS.insert, customer, *CARS.values(car))
            return b'{"id": %d}' % id
        asked = {"start": body["start"], "end": None, "lifetime": None, "renewableAfter": None}
        await self.pool.fetchrow(ASK, customer, body["carId"], body["userId"], asked, "0" * 32)
        return b""


def main() -> None:
    dsn, port = sys.argv[1:]
    config = uvicorn.Config(
        Floor(dsn, Settings()), port=int(port), http="httptools", loop="uvloop", ws="none", access_log=False,
        log_level="warning", server_header=False, timeout_keep_alive=75,
    )  # fmt: skip
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
