"""A customer moves to another cell with everything that belongs to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from keyrack.core.settings import Cell, Settings
from keyrack.ops.cells import customer_move
from keyrack.ops.cells.account_copies import delete_moved
from keyrack.ops.cells.side import MoveRefused, Side
from tests.ops.cells.conftest import RunningCell, TwoCells
from tests.ops.cells.moves import finish, move, signed_in, undo, with_sides
from tests.support.people import Person
from tests.support.servers import Process, Sql, eventually, migrated_database
from tests.webhooks.receiver import Receiver

PUBLICATIONS = "select count(*) from pg_publication"
SUBSCRIPTIONS = """
select count(*) from pg_subscription where subdbid = (select oid from pg_database where datname = current_database())
"""
SLOTS = "select count(*) from pg_replication_slots"
GUARDS = "select count(*) from pg_trigger where tgname like 'guard_move_%'"


class Interrupted(Exception):
    """The end of a move at a step of a test."""


def interrupt_at(step: str) -> Any:
    """A reporter that ends the move at this step."""

    def report(done: Mapping[str, Any]) -> None:
        if done["step"] == step:
            raise Interrupted

    return report


def interrupted_move(cells: TwoCells, customer: int, step: str) -> None:
    with pytest.raises(Interrupted):
        move(cells.main, cells.east, customer, interrupt_at(step))


def rows_of(cell: RunningCell, customer: int) -> int:
    """The rows of the customer that a cell has in some tables."""
    return sum(
        cell.sql.value(f"select count(*) from {table} where customer_id = $1", customer)
        for table in ("car", "customer_user", "assignment", "change", "customer", "operation")
    )


def has_no_leftovers(cell: RunningCell) -> bool:
    return [cell.sql.value(sql) for sql in (PUBLICATIONS, SUBSCRIPTIONS, SLOTS, GUARDS)] == [0, 0, 0, 0]


def is_unknown(person: Person) -> bool:
    return person.get("/cars").status_code in (401, 404)


CELLS_OF_PERSON = "select array_agg(cell) from person_cell where user_id = $1"


def test_both_cells_know_that_they_have_the_persons(cells: TwoCells) -> None:
    """A user of two customers stays in both cells."""
    alice, bob = cells.main.town.person("alice"), cells.main.town.person("bob")
    shared, alone = alice.user(), alice.user()
    address = cells.main.sql.value("select email_address from person where user_id = $1", shared)
    assert bob.put("/users/assignments/customers", {"emailAddress": address}).status_code == 204
    move(cells.main, cells.east, alice.customer)
    for cell, other in ((cells.main, cells.east), (cells.east, cells.main)):
        for user in (shared, alone):
            assert cell.sql.value("select version from person where user_id = $1", user) == 0
            assert cell.sql.value(CELLS_OF_PERSON, user) == [other.cell.number]
    assert cells.main.sql.value("select count(*) from person_change_outbox") == 0  # there is no third cell
    finish(cells.main, cells.east, alice.customer)
    assert cells.main.sql.value(CELLS_OF_PERSON, shared) == [cells.east.cell.number]
    assert cells.main.sql.value(CELLS_OF_PERSON, alone) is None
    assert cells.main.sql.value("select count(*) from person where user_id = $1", alone) == 0


def test_a_moved_customer_works_in_the_target_and_is_unknown_in_the_source(cells: TwoCells) -> None:
    alice, bob = cells.main.town.person("alice"), cells.main.town.person("bob")
    with Receiver() as receiver:
        car, user = alice.car_with_box(), alice.user()
        assignment = alice.assignment(car, user)
        webhook = alice.put("/webhooks", {"url": receiver.url}).json()
        numbers = [row["id"] for row in alice.get("/changes").json()]
        moved = move(cells.main, cells.east, alice.customer)
        assert moved.rows > 0
        eventually(lambda: is_unknown(alice), "the end of cached access")
        assert cells.main.sql.value("select count(*) from customer where customer_id = $1", alice.customer) == 0
        there = signed_in(alice, cells.east)
        assert [row["id"] for row in there.get("/cars").json()] == [car]
        assert [row["id"] for row in there.get(f"/cars/{car}/assignments").json()] == [assignment]
        assert [row["id"] for row in there.get("/changes").json()][: len(numbers)] == numbers
        # The secret of the webhook opens with the data key of the target
        assert there.assignment(car, user, "2026-02-01T08:00:00Z") > assignment
        message = eventually(receiver.messages, "the message")[0]
        assert message.headers["webhook-signature"]
        assert webhook["id"] in [row["id"] for row in there.get("/webhooks").json()]
    assert bob.car() > 0
    finish(cells.main, cells.east, alice.customer)
    assert rows_of(cells.main, alice.customer) == 0
    assert has_no_leftovers(cells.main)
    assert has_no_leftovers(cells.east)
    assert there.car("Another") > car
    with pytest.raises(MoveRefused, match="No move of customer"):
        finish(cells.main, cells.east, alice.customer)


def test_a_held_customer_reads_and_gets_503_for_writes(cells: TwoCells) -> None:
    alice, bob = cells.main.town.person("alice"), cells.main.town.person("bob")
    car = alice.car()
    interrupted_move(cells, alice.customer, "held")
    answer = alice.put("/cars", {"name": "Second"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert [row["id"] for row in alice.get("/cars").json()] == [car]
    assert bob.car() > 0
    move(cells.main, cells.east, alice.customer)
    assert [row["id"] for row in signed_in(alice, cells.east).get("/cars").json()] == [car]
    finish(cells.main, cells.east, alice.customer)


@pytest.mark.parametrize("step", ["copying", "held"])
def test_an_undone_move_leaves_the_customer_in_the_source(cells: TwoCells, step: str) -> None:
    alice = cells.main.town.person("alice")
    car, user = alice.car_with_box(), alice.user()
    interrupted_move(cells, alice.customer, step)
    undo(cells.main, cells.east, alice.customer)
    assert alice.assignment(car, user) > 0
    assert rows_of(cells.east, alice.customer) == 0
    assert has_no_leftovers(cells.main)
    assert has_no_leftovers(cells.east)


def test_a_move_that_was_interrupted_after_the_switch_is_completed_and_not_undone(cells: TwoCells) -> None:
    alice = cells.main.town.person("alice")
    interrupted_move(cells, alice.customer, "switched")
    assert alice.put("/cars", {"name": "Car"}).status_code == 503  # the target alone accepts writes
    with pytest.raises(MoveRefused, match="has been switched already"):
        undo(cells.main, cells.east, alice.customer)
    with pytest.raises(MoveRefused, match=f"Run `keyrack cells move-customer {alice.customer} --to east`"):
        finish(cells.main, cells.east, alice.customer)
    move(cells.main, cells.east, alice.customer)
    eventually(lambda: is_unknown(alice), "the end of cached access")
    assert signed_in(alice, cells.east).car() > 0
    with pytest.raises(MoveRefused, match=f"is not finished. Run `keyrack cells finish {alice.customer}`"):
        move(cells.east, cells.main, alice.customer)
    finish(cells.main, cells.east, alice.customer)


def test_a_manager_of_two_customers_is_named_with_the_remedy(cells: TwoCells) -> None:
    alice = cells.main.town.person("alice")
    other = cells.main.town.another_fleet(alice)
    with pytest.raises(MoveRefused, match=f"Manager {alice.username} also works for customer {other.customer}"):
        move(cells.main, cells.east, alice.customer)
    assert alice.car() > 0


def test_a_person_with_the_address_of_another_one_is_named(cells: TwoCells) -> None:
    alice, bob = cells.main.town.person("alice"), cells.east.town.person("bob")
    alice.user("Same@example.org")
    bob.user("Same@example.org")
    with pytest.raises(MoveRefused, match=r"another person with the address Same@example\.org"):
        move(cells.main, cells.east, alice.customer)


def test_a_source_without_logical_replication_is_refused(
    cells: TwoCells, database_server: str, settings: Settings
) -> None:
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        customer = 900  # no other test has it
        sql.execute("insert into customer (customer_id, name) overriding system value values ($1, 'a')", customer)
        sql.execute("insert into data_key (number, master, wrapped) values (1, 'x', '')")
        source = (Cell(0, "main", settings), dsn)

        async def run() -> None:
            async with customer_move.open_sides(source, (cells.east.cell, cells.east.dsn), customer) as sides:
                await customer_move.move_customer(*sides, customer, lambda step: None)

        with pytest.raises(MoveRefused, match="Cell main has wal_level = replica, but a move needs logical"):
            asyncio.run(run())
        sql.close()


def test_a_customer_that_the_target_has_lost_is_served_by_the_source(cells: TwoCells) -> None:
    alice = cells.main.town.person("alice")
    car, user = alice.car_with_box(), alice.user()
    assignment = alice.assignment(car, user)
    epoch = alice.get("/changes?$top=0").headers["changes-epoch"]
    move(cells.main, cells.east, alice.customer)
    later = signed_in(alice, cells.east).car("Later")
    restore_before_switch(cells, alice.customer)
    undo(cells.main, cells.east, alice.customer)
    back = signed_in(alice, cells.main)
    assert [row["id"] for row in back.get("/cars").json()] == [car]
    assert [row["id"] for row in back.get(f"/cars/{car}/assignments").json()] == [assignment]
    assert back.get("/changes?$top=0").headers["changes-epoch"] != epoch
    assert back.car("Another") > later  # the id of the lost car is not issued again
    assert back.assignment(car, user, "2026-02-01T08:00:00Z") > assignment
    assert rows_of(cells.east, alice.customer) == 0
    assert has_no_leftovers(cells.main)
    assert has_no_leftovers(cells.east)
    move(cells.main, cells.east, alice.customer)
    assert signed_in(alice, cells.east).car("Moved again") > later
    finish(cells.main, cells.east, alice.customer)


def restore_before_switch(cells: TwoCells, customer: int) -> None:
    """Give the target the state of a time during the copy."""

    async def work(_: Side, side: Side) -> None:
        known = await side.open_move(customer)
        assert known is not None
        async with side.transaction(has_triggers=False):
            await delete_moved(side, known.id, customer)
            await side.execute("delete from cell_move_kept_row")
            await side.execute("update cell_move set state = 'copying' where move_id = $1", known.id)

    with_sides(cells.main, cells.east, customer, work)


@pytest.mark.cluster
def test_the_commands_move_a_customer_and_report_each_step(cells: TwoCells) -> None:
    alice = cells.main.town.person("alice")
    car = alice.car()

    def command(*words: str) -> list[dict[str, Any]]:
        process = Process("cells", *words, "--json", env=cells.environment)
        out, err = process.popen.communicate()
        assert process.popen.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    *steps, result = command("move-customer", str(alice.customer), "--to", "east")
    assert {"copied", "held", "compared", "switched"} <= {step["step"] for step in steps}
    assert (result["from"], result["to"]) == ("main", "east")
    assert [row["id"] for row in signed_in(alice, cells.east).get("/cars").json()] == [car]
    assert command("finish", str(alice.customer))[-1] == {"customer": alice.customer, "cell": "main"}
    refused = Process("cells", "undo", str(alice.customer), env=cells.environment)
    assert "No move of customer" in refused.popen.communicate()[1]
