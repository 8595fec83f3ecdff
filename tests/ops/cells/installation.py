"""Two cells without servers, so that their databases can be restored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import pytest

from keyrack.core.settings import Cell, Settings
from keyrack.core.settings.cells import CellSettings
from keyrack.ops.cells import customer_move
from keyrack.ops.cells.replication import end_copying
from keyrack.ops.cells.side import Side
from tests.cli.test_operator_commands import Operator
from tests.support.servers import migrated_database

NORTH = "north"


class Interrupted(Exception):
    """The end of a move at a step of a test."""


@dataclass
class Installation(Operator):
    """The cells main and north, whose databases are copied and restored."""

    server: str
    north: str
    settings: Settings

    def quick(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> tuple[int, str, str]:
        cells = json.dumps([{"name": NORTH, "number": 1, "url": self.north}])
        return super().quick(*arguments, env={"KEYRACK_CELLS": cells} | (env or {}), stdin=stdin)

    def succeed(self, *arguments: object) -> str:
        status, output, errors = self.quick(*arguments)
        assert status == 0, errors
        return output

    def fail(self, *arguments: object) -> str:
        status, output, errors = self.quick(*arguments)
        assert (status, output) == (1, ""), output
        return errors

    def findings(self) -> list[dict[str, Any]]:
        """The warnings and faults of `cells check`, without those of single cells."""
        checks = json.loads(self.quick("cells", "check", "--json")[1])["checks"]
        return [check for check in checks if check["cell"] is None and check["result"] != "ok"]

    def sql_value(self, sql: str) -> Any:
        """The value of a statement in main."""
        return asyncio.run(execute(self.dsn, sql))

    def cells_of(self, customer: int) -> list[str]:
        return [row["cell"] for row in self.value("customer", "list") if row["id"] == customer]

    def interrupt(self, customer: int, step: str) -> None:
        """Move a customer to north until a step.

        The replication is removed, because no restore brings it back.
        """

        def report(done: Mapping[str, Any]) -> None:
            if done["step"] == step:
                raise Interrupted

        async def work() -> None:
            sides: tuple[Side, Side]
            async with customer_move.open_sides(*self._cells(), customer) as sides:
                with pytest.raises(Interrupted):
                    await customer_move.move_customer(*sides, customer, report)
                await end_copying(*sides, customer)

        asyncio.run(work())

    def _cells(self) -> tuple[tuple[Cell, str], tuple[Cell, str]]:
        cells = (CellSettings(name=NORTH, number=1, url=self.north),)
        both = self.settings.model_copy(update={"database_url": self.dsn, "cells": cells})
        main, north = both.all_cells
        return (main, self.dsn), (north, self.north)

    def restore(self, dsn: str, backup: str) -> None:
        """Replace a database by a copy of another one."""
        name = name_of(dsn)
        for sql in (
            f'drop database "{name}" with (force)',
            f'create database "{name}" template "{name_of(backup)}" strategy file_copy',
        ):
            asyncio.run(execute(self.server, sql))


def name_of(dsn: str) -> str:
    return unquote(urlsplit(dsn).path[1:])


async def execute(dsn: str, sql: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


@contextmanager
def new_installation(server: str, settings: Settings) -> Iterator[Installation]:
    with migrated_database(server) as main, migrated_database(server) as north:
        assert Operator(main).quick("cells", "add", NORTH, "--url", north)[0] == 0
        yield Installation(main, server, north, settings)


def add_fleet(installation: Installation) -> int:
    """A customer in main with replicated and switched rows."""
    customer = installation.value("customer", "add", "Fleet", "--cell", "main")["id"]
    installation.succeed("manager", "add", "kim@example.org", "--customer", customer, "--role", "owner")
    installation.succeed("client", "add", "Portal", "--customer", customer, "--scope", "cars:read")
    product = ("--type", "vendor Box", "--serial-number", "1", "--unique-id", "u1", "--sap-number", "2")
    installation.succeed("product", "add", "--customer", customer, *product)
    return customer


def another_box(serial: str = "2") -> tuple[str, ...]:
    return "--type", "vendor Box", "--serial-number", serial, "--unique-id", f"u{serial}", "--sap-number", "2"
