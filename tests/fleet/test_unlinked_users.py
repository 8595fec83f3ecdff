"""Persons without a customer: kept for a while, found only by address, then erased."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.fleet import global_erasure
from tests.fleet.endpoints.test_users import DATA, MEMBERSHIP, NOBODY
from tests.support.people import Person, done, refused
from tests.support.servers import DEADLINE, Process, RunningServer, Sql, eventually

DAYS = Settings().orphaned_person_retention_days
BLOCKED = "select count(*) from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"


@pytest.fixture(scope="module")
def other(dsn: str) -> Iterator[Sql]:
    """A second connection that works at the same time."""
    statements = Sql(dsn)
    yield statements
    statements.close()


def address() -> str:
    return f"{uuid.uuid4()}@example.org"


def tidy(sql: Sql, dsn: str, settings: Settings) -> None:
    """Run this step of housekeeping."""

    async def run() -> None:
        db = await Database.connect(dsn, settings)
        await global_erasure.erase_orphans(db, settings)
        await db.close()

    sql.run(run())


def left(person: Person, email: str, days: float = DAYS + 1) -> int:
    """A user who left this many days ago."""
    user = person.user(email)
    done(person.delete(MEMBERSHIP, {"userId": user}))
    person.sql.execute("update person set left_at = now() - make_interval(hours => $2) where user_id = $1", user,
                       int(days * 24))  # fmt: skip
    return user


def exists(sql: Sql, user: int) -> bool:
    return sql.value("select exists (select from person where user_id = $1)", user)


def test_a_person_without_a_customer_is_erased_after_thirty_days(
    alice: Person, other: Sql, dsn: str, settings: Settings
) -> None:
    """A7: not earlier, and then completely: the address is free, and events remain without the person."""
    assert DAYS == 30
    car, email = alice.car(), address()
    user = alice.user(email)
    event = alice.event(car, user, latitude=52.5, longitude=13.4)
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    before = left(alice, address(), DAYS - 0.1)
    tidy(other, dsn, settings)
    assert exists(alice.sql, user) and exists(alice.sql, before)
    alice.sql.execute("update person set left_at = left_at - interval '721 hours' where user_id = $1", user)
    tidy(other, dsn, settings)
    assert (exists(alice.sql, user), exists(alice.sql, before)) == (False, True)
    refused(alice.put(MEMBERSHIP, {"emailAddress": email}), 404, NOBODY)
    row = alice.get(f"/events/{event}").json()
    assert (row["userId"], row["userAgent"], row["latitude"]) == (0, "erased", None)
    assert alice.user(email) != user


def test_a_worker_erases_persons_without_a_customer(alice: Person, dsn: str, settings: Settings) -> None:
    """A7: as a step of housekeeping, with the time of the setting."""
    user = left(alice, address(), 3)
    with RunningServer(settings.model_copy(update={"orphaned_person_retention_days": 2}), dsn):

        def gone() -> bool:
            """Makes the step due, because another worker with other settings may have run it."""
            alice.sql.execute("update housekeeping set due_at = now() where step = 'people in no customer'")
            return not exists(alice.sql, user)

        eventually(gone, "the end of the person")


def test_a_person_in_a_customer_is_not_erased(
    alice: Person, bob: Person, other: Sql, dsn: str, settings: Settings
) -> None:
    """A7: however long ago the person left one customer."""
    email, back = address(), address()
    user = alice.user(email)
    done(bob.put(MEMBERSHIP, {"emailAddress": email}))
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    returned = left(alice, back, 0)
    done(alice.put(MEMBERSHIP, {"emailAddress": back}))
    alice.sql.execute(
        "update person set left_at = now() - interval '99 days' where user_id = any($1)", [user, returned]
    )
    tidy(other, dsn, settings)
    assert bob.get(f"/users/{user}").status_code == alice.get(f"/users/{returned}").status_code == 200
    done(bob.delete(MEMBERSHIP, {"userId": user}))
    tidy(other, dsn, settings)
    assert exists(alice.sql, user), "the thirty days begin anew"


def test_a_person_with_an_uncommitted_link_is_not_erased(
    alice: Person, other: Sql, dsn: str, settings: Settings
) -> None:
    """A7: a link that is not committed yet keeps the person, although other transactions do not see it."""
    user = left(alice, address(), 0)
    alice.sql.execute("begin")
    alice.sql.execute("insert into customer_user (customer_id, user_id) values ($1, $2)", alice.customer, user)
    other.execute("update person set left_at = now() - interval '99 days' where user_id = $1", user)
    tidy(other, dsn, settings)
    alice.sql.execute("commit")
    tidy(other, dsn, settings)
    assert alice.get(f"/users/{user}").status_code == 200


def test_a_person_that_is_being_erased_is_not_linked(alice: Person, sql: Sql) -> None:
    """A7: a later link finds no person."""
    email = address()
    user = left(alice, email, 0)
    with ThreadPoolExecutor(1) as threads:
        sql.execute("begin")
        sql.execute("select from person where user_id = $1 for update", user)
        linking = threads.submit(alice.put, MEMBERSHIP, {"emailAddress": email})
        eventually(lambda: sql.value(BLOCKED), "the wait")
        sql.execute("delete from person where user_id = $1", user)
        sql.execute("commit")
        refused(linking.result(), 404, NOBODY)
    assert alice.put("/users", {"emailAddress": email, "userData": DATA}).status_code == 201


def test_a_command_does_not_erase_a_person_that_is_linked_meanwhile(alice: Person, bob: Person, dsn: str) -> None:
    """A7: neither `user erase` nor the removal of a customer undoes a concurrent link."""
    fleet = bob.sql.value("insert into customer (name) values ('Going') returning customer_id")
    for arguments in (("user", "erase", "USER", "--yes"), ("customer", "remove", fleet, "--everything", "--yes")):
        user = alice.user()
        alice.sql.execute("insert into customer_user (customer_id, user_id) values ($1, $2)", fleet, user)
        alice.sql.execute("delete from customer_user where customer_id = $1 and user_id = $2", alice.customer, user)
        alice.sql.execute("begin")
        alice.sql.execute("insert into customer_user (customer_id, user_id) values ($1, $2)", bob.customer, user)
        words = [str(user if part == "USER" else part) for part in arguments]
        command = Process(*words, env={"KEYRACK_DATABASE_URL": dsn}).popen
        eventually(lambda: alice.sql.value(BLOCKED), "the wait")
        alice.sql.execute("commit")
        _, errors = command.communicate(timeout=DEADLINE)
        assert bob.get(f"/users/{user}").status_code == 200
        if "erase" in arguments:
            assert "has just been added to another customer. Nothing was erased" in errors
        else:
            assert command.returncode == 0, errors


def test_many_events_are_erased_in_batches(
    alice: Person, other: Sql, dsn: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7: a person with more events than one batch."""
    monkeypatch.setattr(global_erasure, "BATCH", 3)
    car, user = alice.car(), alice.user()
    events = [alice.event(car, user) for _ in range(7)]
    done(alice.delete(MEMBERSHIP, {"userId": user}))
    alice.sql.execute("update person set left_at = now() - interval '31 days' where user_id = $1", user)
    tidy(other, dsn, settings)
    assert {alice.get(f"/events/{event}").json()["userId"] for event in events} == {0}
    assert not exists(alice.sql, user)
