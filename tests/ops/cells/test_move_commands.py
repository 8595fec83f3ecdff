"""The commands of moves: what they check first, warn of and print."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from keyrack.core.settings import Settings
from tests.ops.cells.installation import NORTH, Installation, add_fleet, execute, name_of, new_installation

pytestmark = pytest.mark.cluster


@dataclass
class Fleet:
    """An installation with a customer of cell main."""

    installation: Installation
    customer: int


@pytest.fixture
def fleet(logical_server: str, settings: Settings) -> Iterator[Fleet]:
    with new_installation(logical_server, settings) as installation:
        yield Fleet(installation, add_fleet(installation))


def test_lists_leave_out_rows_that_wait_for_the_end_of_a_move(fleet: Fleet) -> None:
    installation = fleet.installation
    installation.succeed("cells", "move-customer", "Fleet", "--to", NORTH)
    assert [row["cell"] for row in installation.value("product", "list")] == [NORTH]
    assert installation.value("product", "list", "--cell", "main") == []
    assert installation.sql_value("select count(*) from product") == 1


def test_a_move_prints_one_line_for_all_tables_of_a_phase(fleet: Fleet) -> None:
    """With --json, each table has a line."""
    installation, customer = fleet.installation, fleet.customer
    status, _, errors = installation.quick("cells", "move-customer", customer, "--to", NORTH)
    assert status == 0, errors
    lines = errors.splitlines()
    copied, compared = (next(line for line in lines if line.startswith(word)) for word in ("Copied", "Compared"))
    assert lines == [
        "Copying the rows ...", copied, "Writes are held.", "The source accepts writes again.", compared,
        "Writes are held.", lines[-1],
    ]  # fmt: skip
    assert lines[-1].startswith("Switched; writes were held for at most")
    assert re.fullmatch(r"Copied \d+ tables\.", copied)
    installation.succeed("cells", "finish", customer)
    status, output, _ = installation.quick("cells", "move-customer", customer, "--to", "main", "--json")
    steps = [json.loads(line) for line in output.splitlines()]
    sums = [step["rows"] for step in steps if step.get("step") == "compared"]
    assert compared == f"Compared {len(sums)} tables: {sum(sums)} rows."


def test_a_customer_is_named_as_in_other_commands(fleet: Fleet) -> None:
    installation = fleet.installation
    assert "There is no customer 'Flet'" in installation.fail("cells", "move-customer", "Flet", "--to", NORTH)
    said = installation.fail("cells", "move-customer", "Fleet", "--to", "main")
    assert said == f"keyrack: Customer {fleet.customer} is in cell main already.\n"
    assert "There is no customer 77 in any cell" in installation.fail("cells", "move-customer", 77, "--to", NORTH)


def test_a_key_that_is_revoked_in_one_cell_is_named_before_the_move(fleet: Fleet) -> None:
    installation, move = fleet.installation, ("cells", "move-customer", fleet.customer, "--to")
    kept, other = (installation.value("api-key", "add", name, "--cell", "main")["id"] for name in ("Kept", "Other"))
    assert "API key" not in installation.quick(*move, NORTH)[2]
    installation.succeed("cells", "finish", fleet.customer)
    asyncio.run(execute(installation.dsn, f"update api_key set revoked_at = now() where api_key_id = {kept}"))
    asyncio.run(execute(installation.north, "update api_key set revoked_at = now() where name = 'Other'"))
    warnings = [line for line in installation.quick(*move, "main")[2].splitlines() if line.startswith("Warning")]
    assert warnings == [
        f"Warning: API key {kept} (Kept) is revoked in cell main only. Callers with this key get 401 after the switch.",
        f"Warning: API key {other} (Other) is not revoked in cell main. It is valid again after the switch, unless you "
        f"run `keyrack api-key revoke {other} --cell main`.",
    ]


@pytest.fixture
def limited_role(logical_server: str) -> Iterator[str]:
    """A role that owns all tables, and is no superuser."""
    role = "mover"
    asyncio.run(execute(logical_server, f"create role {role} in role keyrack"))
    yield role
    asyncio.run(execute(logical_server, f"drop role {role}"))


@pytest.mark.parametrize("is_switched", [True, False])
def test_each_command_of_a_move_checks_the_superuser_first(
    fleet: Fleet, limited_role: str, *, is_switched: bool
) -> None:
    installation, customer = fleet.installation, fleet.customer
    if is_switched:
        installation.succeed("cells", "move-customer", customer, "--to", NORTH)
    else:
        installation.interrupt(customer, "held")
    setting = f'alter database "{name_of(installation.dsn)}" {{}}'
    asyncio.run(execute(installation.dsn, setting.format(f"set role = {limited_role}")))
    for command in (("finish", customer), ("undo", customer), ("move-customer", customer, "--to", NORTH)):
        said = installation.fail("cells", *command)
        assert said.startswith("keyrack: The role of cell main is no superuser"), said
    assert "the role is no superuser" in installation.quick("cells", "check", "--json")[1]
    asyncio.run(execute(installation.server, setting.format("reset role")))
    assert "can be moved out of this cell" in installation.quick("cells", "check", "--json")[1]
    installation.succeed("cells", "finish" if is_switched else "undo", customer)


def test_undo_says_that_writes_are_released_only_if_they_were_held(fleet: Fleet) -> None:
    installation = fleet.installation
    for step, is_held in (("copied", False), ("held", True)):
        installation.interrupt(fleet.customer, step)
        said = installation.quick("cells", "undo", fleet.customer)[2]
        assert ("The source accepts writes again." in said) == is_held
