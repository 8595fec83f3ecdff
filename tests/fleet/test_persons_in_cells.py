"""Persons in several cells: found by address, copied, changed and erased."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from keyrack.core.cell_ids import cell_of_id
from keyrack.core.error_codes import DATABASE_AWAY
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Cell, Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.cell_identity import number_cell
from keyrack.db.connection import Connection, Database
from keyrack.db.other_cells import OtherCells
from keyrack.fleet.person_changes import PersonChangeDispatcher
from keyrack.ops.doctor import database
from keyrack.ops.monitoring.findings import evaluate
from keyrack.ops.monitoring.status import collect_status
from tests.cli.test_operator_commands import Operator
from tests.fleet.endpoints.test_users import DATA, MEMBERSHIP, NOBODY, SAME
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer, Sql, eventually, migrated_database, patient_settings

_numbers = count(1)
STATE = "select email_address, first_name, last_name, type, version from person where user_id = $1"
QUEUED = "select cell, is_erasure, last_error from person_change_outbox where user_id = $1 order by cell"
TWICE = """
insert into person (email_address, address_form, type) values ($1, $1, 'Anonymous') returning user_id
"""
DUE = "update person_change_outbox set due_at = now()"


NAMES = ("main", "north", "south")  # by number


@dataclass
class CellUnderTest:
    """A cell with a server, without a worker."""

    name: str
    dsn: str
    settings: Settings
    sql: Sql
    server: RunningServer
    alice: Person

    def state(self, user: int) -> tuple[Any, ...] | None:
        """The master data and the version of the person."""
        return next((tuple(row) for row in self.sql.rows(STATE, user)), None)

    def first_name(self, user: int) -> str | None:
        return self.sql.value("select first_name from person where user_id = $1", user)

    def queued(self, user: int) -> list[tuple[Any, ...]]:
        """Waiting changes: the cell, whether it is an erasure, the last error."""
        return [tuple(row) for row in self.sql.rows(QUEUED, user)]

    def deliver(self) -> None:
        """Deliver all waiting changes to the cells that are not away."""
        self.sql.execute(DUE)

        async def run() -> None:
            acting.set(system("worker"))
            db, others = await Database.connect(self.dsn, self.settings), OtherCells(self.settings)
            dispatcher = PersonChangeDispatcher(db, self.settings, others)
            while await dispatcher.deliver_next():
                pass
            await others.close()
            await db.close()

        asyncio.run(run())

    @contextlib.contextmanager
    def away(self, server: str) -> Iterator[None]:
        """Refuse all connections to the database, also those that are open."""
        name = urlsplit(self.dsn).path.removeprefix("/")
        with contextlib.closing(Sql(server)) as sql:
            sql.execute(f'alter database "{name}" allow_connections false')
            sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
            try:
                yield
            finally:
                sql.execute(f'alter database "{name}" allow_connections true')
        self.sql = self.alice.sql = Sql(self.dsn)

    def rename(self, user: int, first_name: str) -> None:
        self.sql.execute("update person set first_name = $2 where user_id = $1", user, first_name)

    def link(self, email: str) -> Any:
        return self.alice.put(MEMBERSHIP, {"emailAddress": email})


@pytest.fixture(scope="module")
def cells(database_server: str) -> Iterator[tuple[CellUnderTest, ...]]:
    with contextlib.ExitStack() as stack:
        addresses = [stack.enter_context(migrated_database(database_server)) for _ in range(3)]
        others = [{"name": name, "number": n, "url": addresses[n]} for n, name in enumerate(NAMES) if n]
        installation = patient_settings(database_url=addresses[0], cells=others, user_lookup_burst=1_000)
        made: list[CellUnderTest] = []
        for cell in installation.all_cells:
            dsn = addresses[cell.number]
            asyncio.run(_number(dsn, cell.number, cell.name))
            sql = Sql(dsn)
            server = stack.enter_context(RunningServer(cell.settings, dsn, worker=False))
            alice = Town(sql, server).person(f"alice-{cell.name}")
            made.append(CellUnderTest(cell.name, dsn, cell.settings, sql, server, alice))
        yield tuple(made)
        for cell in made:
            cell.sql.close()


async def _number(dsn: str, number: int, name: str) -> None:
    raw = await asyncpg.connect(dsn)
    await number_cell(Connection(raw), number, name)
    await raw.close()


@pytest.fixture
def main(cells: tuple[CellUnderTest, ...]) -> CellUnderTest:
    return cells[0]


@pytest.fixture
def north(cells: tuple[CellUnderTest, ...]) -> CellUnderTest:
    return cells[1]


@pytest.fixture
def south(cells: tuple[CellUnderTest, ...]) -> CellUnderTest:
    return cells[2]


def address() -> str:
    return f"shared{next(_numbers)}.{os.getpid()}@example.com"


def shared(main: CellUnderTest, north: CellUnderTest) -> tuple[int, str]:
    """A user of both cells, made in the first, after all deliveries."""
    email = address()
    user = main.alice.user(email)
    done(north.link(email))
    for cell in (main, north):
        cell.deliver()
        assert cell.queued(user) == []
    return user, email


# Found and copied


def test_a_person_of_another_cell_is_found_by_address_and_copied_with_the_id(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    email = address()
    user = north.alice.user(email.upper(), type="Normal", password="a start password")
    assert cell_of_id(user) == 1
    done(main.link(email))
    read = main.alice.get(f"/users/{user}")
    assert read.json() == {"id": user, "emailAddress": email.upper(), "userData": DATA}
    copied = "select seed, created_at, address_form, type from person where user_id = $1"
    assert main.sql.rows(copied, user) == north.sql.rows(copied, user)
    password = "select password_hash, password_customer from person where user_id = $1"
    assert tuple(main.sql.rows(password, user)[0]) == (None, None), "the start password stays with its customer"
    for cell, other in ((main, 1), (north, 0)):
        assert cell.sql.value("select array_agg(cell) from person_cell where user_id = $1", user) == [other]
        assert cell.alice.put(MEMBERSHIP, {"emailAddress": email}).status_code == 409


def test_an_address_of_no_cell_finds_nobody_and_a_copy_without_a_customer_is_erased_later(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    refused(main.link(address()), 404, NOBODY)
    email = address()
    user = north.alice.user(email)
    done(main.link(email))
    assert main.sql.value("select left_at is not null from person where user_id = $1", user)


def test_a_user_id_finds_only_persons_of_the_callers_customers(main: CellUnderTest, north: CellUnderTest) -> None:
    user = north.alice.user(address())
    refused(main.alice.put(MEMBERSHIP, {"userId": user}), 404, NOBODY)
    assert main.state(user) is None
    bob = Town(main.sql, main.server).person("bob")
    copied, _ = shared(main, north)
    refused(bob.put(MEMBERSHIP, {"userId": copied}), 404, NOBODY)


def test_an_address_of_another_cell_is_the_same_conflict(main: CellUnderTest, north: CellUnderTest) -> None:
    email = address()
    north.alice.user(email)
    local = north.alice.put("/users", {"emailAddress": email.title(), "userData": DATA})
    remote = main.alice.put("/users", {"emailAddress": email.title(), "userData": DATA})
    refused(local, 409, SAME)
    assert (remote.status_code, remote.content) == (local.status_code, local.content)
    assert main.sql.value("select count(*) from person where lower(email_address) = $1", email) == 0


def test_a_command_gives_no_address_of_another_cell(main: CellUnderTest, north: CellUnderTest, tmp_path: Any) -> None:
    taken = address()
    north.alice.user(taken)
    user, _ = shared(main, north)
    config = tmp_path / "keyrack.toml"
    cells = "".join(
        f'[[cells]]\nname = "{c.name}"\nnumber = {c.number}\nurl = "{c.url}"\n' for c in main.settings.cells
    )
    config.write_text(cells)
    operator = Operator(main.dsn)
    env = {"KEYRACK_CONFIG": str(config)}
    status, _, errors = operator.quick("user", "change", user, "--address", taken, env=env)
    assert (status, errors.splitlines()[-1]) == (1, f"keyrack: Cell main: {SAME}")
    free = address()
    operator.value("user", "change", user, "--address", free, env=env)
    main.deliver()
    assert north.alice.get(f"/users/{user}").json()["emailAddress"] == free


def test_a_cell_that_is_away_fails_only_requests_that_need_its_answer(
    main: CellUnderTest, north: CellUnderTest, database_server: str
) -> None:
    known = main.alice.user()
    with north.away(database_server):
        answer = main.link(address())
        refused(answer, 503, DATABASE_AWAY.text)
        assert answer.headers["Retry-After"] == "1"
        created = main.alice.put("/users", {"emailAddress": address(), "userData": DATA})
        assert created.status_code == 201, created.text
        assert main.alice.get(f"/users/{known}").status_code == 200
        bob = Town(main.sql, main.server).another_fleet(main.alice)
        done(bob.put(MEMBERSHIP, {"userId": known}))
    eventually(lambda: main.link(address()).status_code == 404, "the other cell is back")


# Changed


def test_changes_reach_the_other_cell_whichever_made_them(main: CellUnderTest, north: CellUnderTest) -> None:
    user, _ = shared(main, north)
    for cell, other, name in ((main, north, "Una"), (north, main, "Ulla"), (main, north, "Uma")):
        cell.rename(user, name)
        assert other.state(user) != cell.state(user)
        cell.deliver()
        assert other.state(user) == cell.state(user)
        assert cell.queued(user) == other.queued(user) == []
        assert other.alice.get(f"/users/{user}").json()["userData"]["firstName"] == name


def test_a_repeated_delivery_and_one_out_of_order_change_nothing(main: CellUnderTest, north: CellUnderTest) -> None:
    user, _ = shared(main, north)
    main.rename(user, "Una")
    main.deliver()
    north.rename(user, "Ulla")  # newer than everything of the first cell
    newest = north.state(user)
    again = "insert into person_change_outbox (user_id, cell) values ($1, 1)"
    main.sql.execute(again, user)
    main.deliver()
    assert north.state(user) == newest and main.queued(user) == []
    north.deliver()
    assert main.state(user) == newest


def test_the_last_of_two_changes_at_the_same_time_is_the_same_everywhere(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    user, _ = shared(main, north)
    main.rename(user, "Una")
    north.rename(user, "Ulla")
    main.deliver()
    north.deliver()
    assert main.state(user) == north.state(user)
    assert main.first_name(user) == "Ulla"


def test_changes_wait_until_the_other_cell_is_back(
    main: CellUnderTest, north: CellUnderTest, database_server: str
) -> None:
    user, _ = shared(main, north)
    with north.away(database_server):
        main.rename(user, "Una")
        main.deliver()
        main.rename(user, "Ulla")
        main.deliver()
        assert [(cell, erased) for cell, erased, _ in main.queued(user)] == [(1, False)]
        assert main.queued(user)[0][2] == "Unavailable"
    main.deliver()
    assert north.state(user) == main.state(user) and main.queued(user) == []


def test_a_new_address_that_another_person_has_waits_for_the_operator(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    user, email = shared(main, north)
    taken = address()
    other = north.alice.user(taken)
    main.sql.execute("update person set email_address = $2, address_form = $2 where user_id = $1", user, taken)
    main.deliver()
    assert main.queued(user) == [(1, False, "another user of that cell has the address")]
    assert north.alice.get(f"/users/{user}").json()["emailAddress"] == email
    north.sql.execute("update person set email_address = $2 where user_id = $1", other, address())
    main.deliver()
    assert north.alice.get(f"/users/{user}").json()["emailAddress"] == taken


def test_a_third_cell_gets_changes_of_all(main: CellUnderTest, north: CellUnderTest, south: CellUnderTest) -> None:
    user, email = shared(main, north)
    done(south.link(email))
    everywhere = (main, north, south)
    for cell in everywhere:
        cell.deliver()
    for cell, name in zip(everywhere, ("Una", "Ulla", "Uta"), strict=True):
        cell.rename(user, name)
        cell.deliver()
        assert {other.first_name(user) for other in everywhere} == {name}
        assert [other.queued(user) for other in everywhere] == [[], [], []]


def test_a_cell_whose_copy_is_gone_gets_no_more_changes(main: CellUnderTest, north: CellUnderTest) -> None:
    user, _ = shared(main, north)
    done(north.alice.delete(MEMBERSHIP, {"userId": user}))
    north.sql.execute("delete from person where user_id = $1", user)
    main.rename(user, "Una")
    main.deliver()
    assert main.queued(user) == [] and main.state(user) is not None
    assert main.sql.value("select count(*) from person_cell where user_id = $1", user) == 0


# Erased


def test_an_erasure_reaches_the_other_cell_and_ends_the_assignments_there(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    user, _ = shared(main, north)
    car = north.alice.car()
    event = north.alice.event(car, user)
    Operator(main.dsn).value("user", "erase", user, "--yes")
    assert main.queued(user) == [(1, True, None)]
    main.deliver()
    assert north.state(user) is None and main.state(user) is None
    assert main.queued(user) == north.queued(user) == []
    assert north.sql.value("select user_id from event where event_id = $1", event) == 0


def test_an_erasure_is_kept_while_the_other_cell_is_away(
    main: CellUnderTest, north: CellUnderTest, database_server: str
) -> None:
    user, _ = shared(main, north)
    with north.away(database_server):
        main.rename(user, "Una")
        Operator(main.dsn).value("user", "erase", user, "--yes")
        main.deliver()
        assert main.queued(user) == [(1, True, "Unavailable")]
    assert north.state(user) is not None
    main.deliver()
    assert north.state(user) is None and main.queued(user) == []


def test_an_erasure_waits_for_a_copy_that_is_being_made(main: CellUnderTest, north: CellUnderTest) -> None:
    user, _ = shared(main, north)
    north.sql.execute("delete from person where user_id = $1", user)  # as if the copy were not committed yet
    Operator(main.dsn).value("user", "erase", user, "--yes")
    main.deliver()
    assert [cell for cell, *_ in main.queued(user)] == [1]
    main.sql.execute("update person_change_outbox set created_at = now() - interval '1 hour'")
    main.deliver()
    assert main.queued(user) == []


def test_an_erasure_from_one_customer_leaves_the_person_in_the_other_cell(
    main: CellUnderTest, north: CellUnderTest
) -> None:
    user, _ = shared(main, north)
    done(main.alice.post(f"/users/{user}/erase"))
    main.sql.execute("delete from person where user_id = $1", user)
    main.deliver()
    assert north.alice.get(f"/users/{user}").status_code == 200


# Reports


def doctor(cell: CellUnderTest) -> list[tuple[int, str]]:
    """The findings about persons in cells: severity and text."""
    findings = asyncio.run(database.examined(Cell(NAMES.index(cell.name), cell.name, cell.settings)))
    return [(int(finding.level), finding.text) for finding in findings if finding.code == "persons"]


def test_doctor_reports_an_address_with_two_ids_and_undelivered_changes(
    main: CellUnderTest, north: CellUnderTest, database_server: str
) -> None:
    main.sql.execute("delete from person_change_outbox")
    assert doctor(main) == [(0, "persons are the same in all cells")]
    email = address()
    here = main.sql.value(TWICE, email)
    there = north.sql.value(TWICE, email)
    user, _ = shared(main, north)
    with north.away(database_server):
        Operator(main.dsn).value("user", "erase", user, "--yes")
        main.deliver()
        assert [level for level, _ in doctor(main)] == [1], "the other cell cannot be compared"
        main.sql.execute("update person_change_outbox set created_at = now() - interval '1 hour'")
        (level, text), _ = doctor(main)
        assert (level, text) == (2, "1 erasure of persons has waited for 1 h for cell north: Unavailable.")
    main.deliver()
    double = f"User {here} and user {there} of cell north have the same address, {email}."
    assert doctor(main) == [(2, double)]
    north.sql.execute("delete from person where user_id = $1", there)
    assert doctor(main) == [(0, "persons are the same in all cells")]


def test_status_reports_a_change_that_waits(main: CellUnderTest) -> None:
    main.sql.execute(
        "insert into person_change_outbox (user_id, cell, created_at) values (1, 1, now() - interval '1 h')"
    )
    picture = asyncio.run(collect_status(main.settings))
    codes = {finding.code for finding in evaluate(picture)}
    main.sql.execute("delete from person_change_outbox")
    assert "persons-undelivered" in codes


def test_another_database_at_the_address_of_a_cell_is_not_asked(main: CellUnderTest, north: CellUnderTest) -> None:
    async def asked(number: int) -> None:
        others = OtherCells(main.settings.model_copy(update={"cells": wrong}))
        try:
            async with others.database(number):
                pass
        finally:
            await others.close()

    wrong = tuple(cell.model_copy(update={"url": main.dsn}) for cell in main.settings.cells)
    with pytest.raises(Unavailable):
        asyncio.run(asked(1))
    with pytest.raises(Unavailable, match="no cell 7"):
        asyncio.run(asked(7))


# Workers, and installations without cells


def test_a_worker_delivers(main: CellUnderTest, north: CellUnderTest) -> None:
    user, _ = shared(main, north)
    settings = main.settings.model_copy(update={"worker_poll": 0.05})
    with RunningServer(settings, main.dsn):
        main.rename(user, "Una")
        eventually(lambda: north.state(user) == main.state(user), "the change in the other cell")
        eventually(lambda: main.queued(user) == [], "the end of the delivery")


def test_without_cells_nothing_is_written(alice: Person, bob: Person) -> None:
    email = address()
    user = alice.user(email)
    done(bob.put(MEMBERSHIP, {"emailAddress": email}))
    alice.sql.execute("update person set first_name = 'Una' where user_id = $1", user)
    assert alice.sql.value("select version from person where user_id = $1", user) is None
    for table in ("person_cell", "person_change_outbox"):
        assert alice.sql.value(f"select count(*) from {table} where user_id = $1", user) == 0
