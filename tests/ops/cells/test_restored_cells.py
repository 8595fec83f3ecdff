"""A cell is restored to a time before or during a move. The commands name the way out of each state."""

from __future__ import annotations

import asyncio
import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from keyrack.core.settings import Settings
from keyrack.ops.cells.side import Side
from tests.ops.cells.installation import (
    NORTH,
    Installation,
    add_fleet,
    another_box,
    execute,
    name_of,
    new_installation,
)
from tests.support.servers import fresh_database

pytestmark = pytest.mark.cluster

STEPS = ("before", "copied", "held", "switched", "moved", "finished")  # times of the backups, in order
HAS_NORTH = STEPS[3:]  # the target has the customer at these times
COMMAND = re.compile(r"`keyrack ([^`]*)`")


@dataclass
class History:
    """A customer that has moved to north, with backups of each step."""

    installation: Installation
    customer: int
    backups: dict[str, tuple[str, str]]  # main and north by step

    def restore(self, main: str, north: str) -> Installation:
        """Both cells at steps of the move."""
        self.installation.restore(self.installation.dsn, self.backups[main][0])
        self.installation.restore(self.installation.north, self.backups[north][1])
        return self.installation


@pytest.fixture(scope="module")
def history(logical_server: str, settings: Settings) -> Iterator[History]:
    with ExitStack() as stack:
        installation = stack.enter_context(new_installation(logical_server, settings))
        main, north = installation.dsn, installation.north
        customer = add_fleet(installation)
        backups: dict[str, tuple[str, str]] = {}

        def back_up(step: str) -> None:
            pair = (stack.enter_context(fresh_database(logical_server, name_of(dsn))) for dsn in (main, north))
            backups[step] = tuple[str, str](pair)

        back_up("before")
        installation.interrupt(customer, "copied")
        back_up("copied")
        installation.restore(north, backups["before"][1])
        installation.restore(main, backups["before"][0])
        installation.interrupt(customer, "held")
        back_up("held")
        installation.restore(north, backups["before"][1])
        installation.restore(main, backups["before"][0])
        installation.interrupt(customer, "switched")
        back_up("switched")
        installation.succeed("cells", "move-customer", customer, "--to", NORTH)
        back_up("moved")
        installation.succeed("cells", "finish", customer)
        back_up("finished")
        yield History(installation, customer, backups)


def follow_advice(installation: Installation, customer: int) -> list[str]:
    """Run the first command that `cells check` names, until it finds nothing. Returns the commands."""
    commands: list[str] = []
    while findings := installation.findings():
        assert len(commands) < 4, (commands, findings)
        command = COMMAND.search(findings[0]["action"])
        assert command is not None, findings
        commands.append(command[1])
        words = shlex.split(command[1])
        installation.succeed(*words, *(["--yes"] if words[0] == "customer" else []))
    return commands


# One cell is at a step, the other is restored to an earlier one
PAIRS = [
    pair
    for later in ("held", "moved", "finished")
    for earlier in STEPS[: STEPS.index(later)]
    for pair in ((later, earlier), (earlier, later))
]


@pytest.mark.parametrize(("main", "north"), PAIRS)
def test_the_advice_leads_out_of_each_state(history: History, main: str, north: str) -> None:
    installation, customer = history.restore(main, north), history.customer
    commands = follow_advice(installation, customer)
    if main == "finished" and north not in HAS_NORTH:
        assert commands == [f"cells finish {customer}"]
        assert installation.cells_of(customer) == []
        assert "There is no customer" in installation.fail("cells", "move-customer", customer, "--to", NORTH)
        return
    # An interrupted move is no fault, so it is ended here
    end = "finish" if north in HAS_NORTH else "undo"
    status, _, errors = installation.quick("cells", end, customer)
    assert status == 0 or "No move of customer" in errors, errors
    expected = NORTH if north in HAS_NORTH else "main"
    assert installation.cells_of(customer) == [expected]
    assert installation.findings() == []
    assert [row["cell"] for row in installation.value("product", "list")] == [expected]
    assert [row["cell"] for row in installation.value("manager", "list")] == [expected]
    other = "main" if expected == NORTH else NORTH
    installation.succeed("cells", "move-customer", "Fleet", "--to", other)
    installation.succeed("cells", "finish", customer)
    assert installation.cells_of(customer) == [other]
    assert installation.findings() == []


def test_a_customer_that_a_restored_target_has_lost_comes_back_to_the_source(history: History) -> None:
    installation, customer = history.restore("moved", "before"), history.customer
    lost = f"Customer {customer} is in no cell: cell north was restored to a time before the switch."
    ((finding),) = installation.findings()
    assert finding["text"].startswith(lost) and finding["result"] == "critical"
    assert f"`keyrack cells undo {customer}`" in finding["action"]
    for command in (("move-customer", customer, "--to", NORTH), ("move-customer", customer, "--to", "main")):
        assert lost in installation.fail("cells", *command)
    assert lost in installation.fail("cells", "finish", customer)
    said = installation.succeed("cells", "undo", customer)
    assert said.startswith(f"Customer {customer} is active again in cell main, with its rows of 20")
    assert said.endswith("UTC. Later writes in cell north are lost.\n")
    # Clients have seen numbers of the target, so the change log continues in a new epoch
    assert installation.sql_value("select count(*) from change_inbox where kind = 'log.begun'") == 1
    assert installation.sql_value("select sign_outs >= 10000 from manager") is True
    assert installation.sql_value("select count(*) from cell_move_kept_row") == 0
    assert installation.succeed("product", "add", "--customer", customer, *another_box()) == "Product 1000002 added.\n"


def test_a_switch_of_an_older_release_cannot_be_undone(history: History) -> None:
    installation, customer = history.restore("moved", "before"), history.customer
    installation.sql_value("delete from cell_move_kept_row")
    assert "because an older release has switched it" in installation.fail("cells", "undo", customer)


def test_a_name_that_was_given_again_in_the_source_is_named(history: History) -> None:
    installation, customer = history.restore("moved", "before"), history.customer
    other = installation.value("customer", "add", "Other", "--cell", "main")["id"]
    added = installation.value("manager", "add", "kim@example.org", "--customer", other, "--role", "owner")
    assert "which it got after the switch" in installation.fail("cells", "undo", customer)
    installation.succeed("manager", "remove", added["id"], "--cell", "main", "--leave-without-owner")
    installation.succeed("cells", "undo", customer)
    assert installation.cells_of(customer) == ["main"]


def test_a_stale_copy_can_be_removed_instead(history: History) -> None:
    installation, customer = history.restore("before", "moved"), history.customer
    installation.succeed("customer", "remove", customer, "--everything", "--yes", "--cell", "main")
    moves, *accounts = installation.findings()
    assert moves["action"].startswith(f"Run `keyrack cells finish {customer}`.")
    assert accounts and {"accounts", "user-names"} >= {finding["check"] for finding in accounts}
    installation.succeed("manager", "remove", "kim@example.org", "--cell", "main")
    installation.succeed("client", "remove", "Portal", "--cell", "main")
    assert "is not finished" in installation.fail("cells", "move-customer", customer, "--to", "main")
    installation.succeed("cells", "finish", customer)
    assert installation.findings() == []
    installation.succeed("cells", "move-customer", customer, "--to", "main")


def test_a_customer_that_was_removed_in_the_target_leaves_no_rows(history: History) -> None:
    installation, customer = history.restore("moved", "moved"), history.customer
    installation.succeed("customer", "remove", customer, "--everything", "--yes", "--cell", NORTH)
    assert "was removed in cell north" in installation.fail("cells", "undo", customer)
    assert follow_advice(installation, customer) == [f"cells finish {customer}"]
    assert installation.sql_value("select count(*) from product") == 0


@pytest.mark.parametrize("is_newer_wanted", [True, False])
def test_the_target_is_restored_to_a_time_before_an_earlier_move_back(
    history: History, logical_server: str, *, is_newer_wanted: bool
) -> None:
    """Both cells have rows of the customer, and the target has it."""
    installation, customer = history.restore("finished", "finished"), history.customer
    with fresh_database(logical_server, name_of(installation.north)) as old:
        for cell in ("main", NORTH):
            installation.succeed("product", "add", "--customer", customer, *another_box(cell))
            installation.succeed("cells", "move-customer", customer, "--to", cell)
            if cell == "main":
                installation.succeed("cells", "finish", customer)
        installation.restore(installation.north, old)
    ((finding),) = installation.findings()
    assert finding["text"].startswith(f"Cell north was restored to a time before the move of customer {customer}")
    assert "has newer rows" in installation.fail("cells", "move-customer", customer, "--to", NORTH)
    if is_newer_wanted:
        follow_advice(installation, customer)
    else:
        installation.succeed("cells", "finish", customer)
    assert installation.findings() == []
    products = installation.value("product", "list")
    assert [row["cell"] for row in products] == (["main"] * 3 if is_newer_wanted else [NORTH])


def test_an_interrupted_undo_leaves_no_copy_after_a_restore_of_the_source(history: History) -> None:
    installation, customer = history.restore("before", "held"), history.customer
    asyncio.run(execute(installation.north, "update cell_move set state = 'undone'"))
    installation.succeed("cells", "move-customer", customer, "--to", NORTH)
    assert installation.cells_of(customer) == [NORTH]


@pytest.mark.parametrize("step", range(4, 120, 12))
@pytest.mark.parametrize("north", ["before", "held"])
def test_an_interrupted_return_is_completed(
    history: History, monkeypatch: pytest.MonkeyPatch, north: str, step: int
) -> None:
    """The undo ends at a statement, and the same command continues it."""
    installation, customer = history.restore("moved", north), history.customer
    counter = itertools.count()
    with monkeypatch.context() as patch:
        for name in ("fetch", "fetchval", "execute"):
            patch.setattr(Side, name, ending_at(getattr(Side, name), step, counter))
        status, _, errors = installation.quick("cells", "undo", customer)
    assert status == 0 or "The database cannot be reached" in errors, errors
    if status:
        follow_advice(installation, customer)
    assert installation.findings() == []
    assert installation.cells_of(customer) == ["main"]
    assert asyncio.run(execute(installation.north, "select count(*) from product")) == 0
    assert installation.sql_value("select count(*) from pg_trigger where tgname like 'guard_move_%'") == 0


def ending_at(method: Callable[..., Any], step: int, counter: Iterator[int]) -> Callable[..., Any]:
    async def counted(self: Side, *args: Any) -> Any:
        if next(counter) == step:
            raise ConnectionError
        return await method(self, *args)

    return counted
