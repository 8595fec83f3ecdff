"""Keyrack in a drill: two API nodes, two workers, and a fleet created by commands and the API."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from drills.machines import Program
from keyrack.core.settings.cells import MAIN
from keyrack.db.encryption import master_keys

CARS = 24
COMMAND = (sys.executable, "-m", "keyrack")
SETTINGS = {
    "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
    "KEYRACK_WEBHOOK_TIMEOUT": "2",
    "KEYRACK_WEBHOOK_RETRY_FIRST": "0.3",
    "KEYRACK_WEBHOOK_RETRY_MAX": "3",
    "KEYRACK_ASSIGNMENT_RATE": "1000000",
    "KEYRACK_ASSIGNMENT_BURST": "100000",
    "KEYRACK_LOGIN_RATE_PER_ADDRESS": "100000",
    "KEYRACK_LOGIN_BURST_PER_ADDRESS": "10000",
    "KEYRACK_MAX_CLIENT_CONNECTIONS_PER_ADDRESS": "2000",
}


@dataclass
class Fleet:
    """A customer with cars, boxes and a user, and the credentials of its callers."""

    cell: str  # of the customer
    customer: int
    cars: list[int]
    user: int
    serial: str
    device_key: str
    headers: dict[str, str] = field(default_factory=dict[str, str])


class Keyrack:
    """Two API nodes and two workers. Their logs are below `state`.

    `databases` has the address of each cell by its name, of which `main` is one.
    """

    def __init__(self, state: Path, databases: Mapping[str, str]) -> None:
        self._variables = SETTINGS | {"KEYRACK_MASTER_KEY": _master_key(state)} | _addresses(databases)
        self._state = state
        self._added = [cell for cell in databases if cell != MAIN]
        ports = [_free_port() for _ in range(2)]
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.nodes = [
            self._program(f"api{n}", "serve", "--no-worker", "--port", str(port)) for n, port in enumerate(ports, 1)
        ]
        self.workers = [self._program(f"worker{n}", "work") for n in (1, 2)]

    @property
    def programs(self) -> list[Program]:
        return [*self.nodes, *self.workers]

    async def start(self) -> None:
        """Write the schema of each cell, and start everything.

        Both nodes respond at the end.
        """
        await self.command("migrate", "--cell", MAIN)
        for cell in self._added:
            await self.command("cells", "add", cell)
        for program in self.programs:
            program.start()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as http:
            for url in self.urls:
                async with asyncio.timeout(60):
                    while not await _answers(http, url):
                        await asyncio.sleep(0.1)

    async def stop(self) -> None:
        await asyncio.gather(*(program.stop() for program in self.programs))

    async def command(self, *arguments: str | Path) -> Any:
        """The JSON output of a command. Raises `RuntimeError` with the error message if it fails."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *map(str, arguments), "--json", env=os.environ | self._variables,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, said = await process.communicate()
        if process.returncode:
            raise RuntimeError(said.decode())
        return json.loads(out)

    async def fleet(self, http: aiohttp.ClientSession, cell: str = MAIN) -> Fleet:
        """A new customer of the cell with everything that the load needs."""
        customer = (await self.command("customer", "add", "Drill", "--cell", cell))["id"]
        manager = await self.command(
            "manager", "add", f"drill{customer}", "--role", "owner", "--customer", str(customer)
        )
        key = await self.command("api-key", "add", "load", "--cell", cell)
        device = await self.command(
            "device-key", "add", "--customer", str(customer), "--gateway", "--scope", "telemetry", "--scope", "events"
        )
        await self._import(customer)
        headers = {"vendor-API-Key": key["apiKey"]}
        grant = {"username": f"drill{customer}", "password": manager["password"], "grant_type": "password"}
        async with http.post(self.urls[0] + "/v3/oauth2/token", data=grant, headers=headers) as answer:
            headers["Authorization"] = "Bearer " + (await answer.json())["access_token"]
        headers["Customer-ID"] = str(customer)
        fleet = Fleet(cell, customer, [], 0, "Q0", device["deviceKey"], headers)
        person = {
            "emailAddress": f"driver{customer}@example.org",
            "userData": {"firstName": "Di", "lastName": "Driver"},
        }
        fleet.user = (await self._put(http, fleet, "/users", person))["id"]
        products = await self._get(http, fleet, "/products?$orderby=id&$top=1000")
        for product in products:
            car = (await self._put(http, fleet, "/cars", {"name": f"Car {product['serialNumber']}"}))["id"]
            fleet.cars.append(car)
            await self._put(http, fleet, "/installations", {"carId": car, "productId": product["id"]})
        return fleet

    async def register(self, http: aiohttp.ClientSession, fleet: Fleet, url: str) -> None:
        """Register a webhook for the fleet's outcomes."""
        await self._put(http, fleet, "/webhooks", {"url": url})

    async def _import(self, customer: int) -> None:
        boxes = [("vendor Box", f"S{n}") for n in range(CARS - 1)] + [("vendor IQ", "Q0")]
        products, services = io.StringIO(), io.StringIO()
        table = csv.writer(products)
        table.writerow(["type", "serialNumber", "uniqueId", "sapNumber"])
        table.writerows((kind, serial, f"U{serial}", f"P{serial}") for kind, serial in boxes)
        table = csv.writer(services)
        table.writerow(["name", "productSerialNumber"])
        table.writerows(("Drill", serial) for _, serial in boxes)
        for what, text in (("products", products), ("services", services)):
            file = self._state / f"{what}.csv"
            file.write_text(text.getvalue())
            await self.command("import", what, file, "--customer", str(customer))

    async def _put(self, http: aiohttp.ClientSession, fleet: Fleet, path: str, body: Any) -> Any:
        async with http.put(self.urls[0] + "/v3" + path, json=body, headers=fleet.headers) as answer:
            text = await answer.text()
            assert answer.status in (201, 204), (path, answer.status, text)
            return json.loads(text) if text else None

    async def _get(self, http: aiohttp.ClientSession, fleet: Fleet, path: str) -> Any:
        async with http.get(self.urls[0] + "/v3" + path, headers=fleet.headers) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    def _program(self, name: str, *arguments: str) -> Program:
        log = self._state / "logs" / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        return Program(name, [*COMMAND, *arguments], variables=self._variables, log=log)


def _addresses(databases: Mapping[str, str]) -> dict[str, str]:
    """The settings of the databases."""
    others = [(name, url) for name, url in databases.items() if name != MAIN]
    tables = [{"name": name, "number": number, "url": url} for number, (name, url) in enumerate(others, 1)]
    cells = {"KEYRACK_CELLS": json.dumps(tables)} if tables else {}
    return {"KEYRACK_DATABASE_URL": databases[MAIN], **cells}


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    with suppress(aiohttp.ClientError, TimeoutError):
        async with http.get(url + "/health") as answer:
            return answer.status == 200
    return False


def _master_key(state: Path) -> str:
    file = state / "master.key"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(master_keys.new().text)
    return file.read_text()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
