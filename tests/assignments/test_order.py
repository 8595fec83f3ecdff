"""One order of operations per customer: applied as accepted, with changes of boxes, cars and users in their place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from keyrack.assignments.customer_lock import BUSY, STUCK
from keyrack.assignments.failure_codes import GONE, NO_BOX, NO_SERVICE, TERMINATED, TEXTS
from keyrack.core.settings import Settings
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.installations import NOT_INSTALLED
from tests.support.people import Person, Town, done, nobody_works, refused
from tests.support.servers import RunningServer, Sql, eventually, migrated_database

START, END, LATER = "2026-01-01T08:00:00Z", "2026-02-01T08:00:00Z", "2026-03-01T08:00:00Z"


def outcome(person: Person, answer: Any) -> dict[str, Any]:
    """The finished operation of a 204."""
    assert answer.status_code == 204, answer.text
    id = answer.headers["Operation-Id"]
    return eventually(
        lambda: (row := person.get(f"/operations/{id}").json())["state"] != "Pending" and row, "the outcome"
    )


def change(**members: Any) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": f"/{name}", "value": value} for name, value in members.items()]


def test_a_moved_assignment_survives_the_uninstallation_of_its_old_car(alice: Person) -> None:
    first, second, user = alice.car(), alice.car_with_box(), alice.user()
    box = alice.box_in(first)
    assignment = alice.assignment(first, user)
    with nobody_works(alice):
        moved = alice.patch(f"/assignments/{assignment}", change(carId=second))
        assert alice.delete("/installations", {"carId": first, "productId": box}).status_code == 204
    assert outcome(alice, moved)["state"] == "Succeeded"
    assert alice.get(f"/assignments/{assignment}").json()["carId"] == second


def test_a_handed_over_assignment_survives_the_removal_of_its_old_user(alice: Person) -> None:
    car, first, second = alice.car_with_box(), alice.user(), alice.user()
    assignment = alice.assignment(car, first)
    with nobody_works(alice):
        handed = alice.patch(f"/assignments/{assignment}", change(userId=second))
        assert alice.delete("/users/assignments/customers", {"userId": first}).status_code == 204
    assert outcome(alice, handed)["state"] == "Succeeded"
    assert alice.get(f"/assignments/{assignment}").json()["userId"] == second


def test_a_request_before_an_installation_fails_and_one_after_it_succeeds(alice: Person) -> None:
    car, user, box = alice.car(), alice.user(), alice.product()
    alice.service(box)
    body = {"carId": car, "userId": user, "start": START}
    with nobody_works(alice):
        before = alice.put("/assignments", body)
        assert alice.put("/installations", {"carId": car, "productId": box}).status_code == 204
        after = alice.put("/assignments", body)
    assert outcome(alice, before)["errorMessage"] == TEXTS[NO_BOX]
    assert outcome(alice, after)["state"] == "Succeeded"


def test_pairings_have_their_place_in_the_order(alice: Person) -> None:
    car, user, box = alice.car(), alice.user(), alice.product()
    pair = {"serviceId": alice.service(box), "productId": box}
    assert alice.put("/installations", {"carId": car, "productId": box}).status_code == 204
    body = {"carId": car, "userId": user, "start": START}
    with nobody_works(alice):
        answers = [alice.put("/assignments", body)]
        assert alice.delete("/pairings", pair).status_code == 204
        answers.append(alice.put("/assignments", body))
        assert alice.put("/pairings", pair).status_code == 204
        answers.append(alice.put("/assignments", body))
    assert [outcome(alice, answer)["errorMessage"] for answer in answers] == [None, TEXTS[NO_SERVICE], None]


def test_changes_after_a_move_are_applied_in_order(alice: Person) -> None:
    first, second, user = alice.car_with_box(), alice.car_with_box(), alice.user()
    assignment = alice.assignment(first, user)
    answers = [alice.patch(f"/assignments/{assignment}", change(carId=second))]
    answers += [alice.patch(f"/assignments/{assignment}", change(lifetime=700_000 + n)) for n in range(30)]
    applied = [outcome(alice, answer)["applied"] for answer in answers]
    assert applied == list(range(applied[0], applied[0] + len(answers)))
    assert alice.get(f"/assignments/{assignment}").json()["lifetime"] == 700_029


def test_caused_ends_precede_requests_accepted_meanwhile(alice: Person, sql: Sql) -> None:
    """A move is accepted during the uninstallation and becomes visible after it. Its assignment has ended by then."""
    first, second, user = alice.car(), alice.car_with_box(), alice.user()
    box = alice.box_in(first)
    assignment = alice.assignment(first, user)
    with nobody_works(alice):
        assert alice.delete("/installations", {"carId": first, "productId": box}).status_code == 204
        move = sql.value(
            "insert into operation (customer_id, seq, kind, car_id, user_id, assignment_id, request, checksum)"
            " overriding system value select customer_id, min(seq) - 1000000, 'UpdateAssignment', $2, $3, $4,"
            " $5::text::jsonb, 'X' from operation where customer_id = $1 group by customer_id"
            " returning operation_id::text",
            alice.customer,
            first,
            user,
            assignment,
            json.dumps({"carId": second}),
        )
    row = eventually(lambda: (r := alice.get(f"/operations/{move}").json())["state"] != "Pending" and r, "the move")
    assert row["errorMessage"] == TEXTS[GONE]
    assert alice.get(f"/assignments/{assignment}").status_code == 404


def test_applied_numbers_have_no_gap_and_operations_record_their_caller(carol: Person, sql: Sql) -> None:
    car, user = carol.car(), carol.user()
    box = carol.box_in(car)
    assignment = carol.assignment(car, user)
    carol.assignment(car, user)
    outcome(carol, carol.patch(f"/assignments/{assignment}", change(end=END)))
    outcome(carol, carol.delete(f"/assignments/{assignment}"))
    assert carol.delete("/installations", {"carId": car, "productId": box}).status_code == 204
    rows = eventually(
        lambda: len(rows := sql.rows(ASKED, carol.customer)) == 5 and rows[-1]["applied"] and rows, "the outcomes"
    )
    assert [row["applied"] for row in rows] == [1, 2, 3, 4, 5]
    manager = sql.value("select manager_id from manager where username = $1", carol.username)
    assert {(row["asked_by"], row["asked_from"]) for row in rows} == {(manager, "127.0.0.1")}
    assert len({row["request_id"] for row in rows}) == 5


ASKED = """
select applied, asked_by, asked_from, request_id from operation where customer_id = $1 order by applied nulls last
"""


# Changes that widen an assignment


def payload(person: Person, operation: dict[str, Any]) -> dict[str, Any]:
    (webhook,) = person.get("/webhooks").json()
    (delivery,) = person.get(f"/webhooks/{webhook['id']}/deliveries?$filter=operationId eq {operation['id']}").json()
    return delivery["payload"]


def test_a_narrowing_change_needs_no_service(carol: Person, sql: Sql) -> None:
    assert carol.put("/webhooks", {"url": "http://127.0.0.1:9/"}).status_code == 201
    car, other, user, second = carol.car_with_box(), carol.car_with_box(), carol.user(), carol.user()
    assignment = carol.assignment(car, user, START, end=LATER, lifetime=900_000)
    sql.execute("update service set is_terminated = true where customer_id = $1", carol.customer)
    at = f"/assignments/{assignment}"
    wider: list[dict[str, Any]] = [
        {"end": None}, {"end": "2026-03-01T08:00:01Z"}, {"start": "2025-12-31T08:00:00Z"}, {"lifetime": 900_001},
        {"carId": other}, {"userId": second}, {"end": END, "lifetime": 1_000_000},
    ]  # fmt: skip
    whole = {
        "assignmentId": assignment, "carId": car, "userId": user, "start": START, "end": LATER, "lifetime": 900_000,
        "renewableAfter": 450_000,
    }  # fmt: skip
    for members in wider:
        failed = outcome(carol, carol.patch(at, change(**members)))
        assert failed["errorMessage"] == TEXTS[TERMINATED], members
        told = payload(carol, failed)
        asked = whole | members
        assert {name: told[name] for name in asked} == asked | {"renewableAfter": asked["lifetime"] // 2}
    for narrower in ({"end": END}, {"start": "2026-01-02T08:00:00Z"}, {"lifetime": 800_000}, {"renewableAfter": 5}):
        assert outcome(carol, carol.patch(at, change(**narrower)))["state"] == "Succeeded", narrower
    outcome(carol, carol.delete(at))
    gone = sql.value(
        "insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, checksum)"
        " values ($1, 'UpdateAssignment', $2, $3, $4, '{\"lifetime\": 700000}', 'X') returning operation_id::text",
        carol.customer,
        car,
        user,
        assignment,
    )
    row = eventually(lambda: (r := carol.get(f"/operations/{gone}").json())["state"] != "Pending" and r, "the outcome")
    told = payload(carol, row)
    assert told["errorMessage"] == TEXTS[GONE]
    known = {"assignmentId": assignment, "carId": car, "userId": user, "lifetime": 700_000}
    assert {name: told[name] for name in whole} == dict.fromkeys(whole) | known


def test_a_default_renewable_after_remains_half_of_the_lifetime(carol: Person) -> None:
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    at = f"/assignments/{assignment}"

    def after(**members: Any) -> tuple[int, int]:
        outcome(carol, carol.patch(at, change(**members)))
        row = carol.get(at).json()
        return row["lifetime"], row["renewableAfter"]

    assert after(lifetime=800_000) == (800_000, 400_000)
    assert after(renewableAfter=300_000) == (800_000, 300_000)
    assert after(lifetime=900_000) == (900_000, 300_000)
    assert after(renewableAfter=None) == (900_000, 450_000)


# Limits


@contextlib.contextmanager
def held(dsn: str, customer: int) -> Iterator[None]:
    """Another transaction has locked the customer."""

    async def hold() -> None:
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            await connection.execute("select from customer_hold where customer_id = $1 for update", customer)
            taken.set()
            await asyncio.to_thread(over.wait)
        await connection.close()

    taken, over = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(asyncio.run, hold())
        taken.wait()
        try:
            yield
        finally:
            over.set()
            holding.result()


@pytest.fixture(scope="module")
def quiet(database_server: str) -> Iterator[str]:
    """A database without a worker."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def impatient(quiet: str, settings: Settings) -> Iterator[Town]:
    """A server with short timeouts and small limits."""
    few = {"lock_timeout_seconds": 0.4, "customer_lock_max_waiting": 1, "flush_max_operations": 500, "pool_size": 6}
    with RunningServer(settings.model_copy(update=few), quiet, worker=False) as server:
        sql = Sql(quiet)
        sql.execute(FAULTS)
        yield Town(sql, server)
        sql.close()


@pytest.fixture
def dora(impatient: Town) -> Iterator[Person]:
    """A manager who uses the impatient server."""
    person = impatient.person("dora")
    yield person
    person.client.close()


def test_a_request_waits_for_the_customer_lock_until_its_timeout(dora: Person, quiet: str) -> None:
    car, box = dora.car(), dora.product()
    dora.service(box)
    with held(quiet, dora.customer):
        refused(busy := dora.put("/installations", {"carId": car, "productId": box}), 503, BUSY)
        assert busy.headers["retry-after"] == "1"
        assert dora.get("/cars").status_code == 200
        asked = dora.put("/assignments", {"carId": car, "userId": dora.user(), "start": START})
        assert asked.status_code == 204, "asking takes no hold"
    assert dora.put("/installations", {"carId": car, "productId": box}).status_code == 204


def test_prechecks_reject_without_the_customer_lock(dora: Person, quiet: str) -> None:
    car, box = dora.car(), dora.product()
    with held(quiet, dora.customer):
        refused(dora.delete("/cars/2147483647"), 404, NO_CAR)
        refused(dora.delete("/installations", {"carId": car, "productId": box}), 409, NOT_INSTALLED)
        assert dora.delete("/users/assignments/customers", {"userId": 2147483647}).status_code == 404
        assert dora.put("/users/assignments/customers", {"userId": 2147483647}).status_code == 404
        assert dora.put("/pairings", {"serviceId": 2147483647, "productId": box}).status_code == 404


def test_only_a_few_requests_may_wait_for_the_customer_lock(dora: Person, quiet: str, settings: Settings) -> None:
    """One request runs and one waits. The others get 503 at once, before the first two have finished."""
    patient = settings.model_copy(
        update={"lock_timeout_seconds": 60, "customer_lock_max_waiting": 1, "statement_timeout_seconds": 60}
    )
    with RunningServer(patient, quiet, worker=False) as server, ThreadPoolExecutor(5) as threads:
        person = Town(dora.sql, server).person("patient")
        cars = [person.car() for _ in range(5)]
        with held(quiet, person.customer):
            asked = [threads.submit(person.delete, f"/cars/{car}") for car in cars]
            eventually(lambda: sum(one.done() for one in asked) >= 3, "the refusals")
            for one in asked:
                if one.done():
                    refused(one.result(), 503, BUSY)
            assert sum(one.done() for one in asked) == 3
        assert sorted(one.result().status_code for one in asked) == [204] * 2 + [503] * 3
        for car, one in zip(cars, asked, strict=True):
            if one.result().status_code == 503:
                done(person.delete(f"/cars/{car}"))


def test_a_long_backlog_gets_503_and_applied_operations_remain(dora: Person) -> None:
    sql = dora.sql
    car, other, user = dora.car_with_box(), dora.car(), dora.user()
    sql.execute(
        "insert into operation (customer_id, kind, car_id, user_id, request, checksum)"
        " select $1, 'CreateAssignment', $2, $3, $4::text::jsonb, 'X' from generate_series(1, 1100)",
        dora.customer,
        car,
        user,
        '{"start": "2026-01-01T08:00:00Z", "end": null, "lifetime": null, "renewableAfter": null}',
    )
    left = "select count(*) from operation where customer_id = $1 and state = 'Pending'"
    for pending in (600, 100):
        refused(dora.delete(f"/cars/{other}"), 503, BUSY)
        assert sql.value(left, dora.customer) == pending
    assert dora.delete(f"/cars/{other}").status_code == 204
    assert sql.value(left, dora.customer) == 0


# Operations that fail by themselves, and interruptions


# A row makes each write of an assignment fail. A test can therefore add and remove faults without a lock of the table,
# which would wait for the workers. The sequence keeps its value when a transaction rolls back
FAULTS = """
create table assignment_fault (car_id integer, operation text, state text not null, primary key (car_id, operation));
create sequence assignment_fault_tries;
create function raise_assignment_fault() returns trigger language plpgsql as $$
declare
  written assignment := case when tg_op = 'DELETE' then old else new end;
  fault text;
begin
  select state into fault from assignment_fault where car_id = written.car_id and operation = tg_op;
  if fault is not null then
    perform nextval('assignment_fault_tries');
    raise exception 'by a test' using errcode = fault;
  end if;
  return written;
end $$;
create trigger raise_assignment_fault before insert or delete on assignment for each row
  execute function raise_assignment_fault()
"""
NO_FAULTS = """
drop function raise_assignment_fault() cascade;
drop sequence assignment_fault_tries;
drop table assignment_fault
"""
TRIES = "select coalesce(pg_sequence_last_value('assignment_fault_tries'), 0)"


@pytest.fixture(scope="module")
def faulty(sql: Sql) -> Iterator[Sql]:
    """The shared database, where `failing` makes writes of assignments fail."""
    sql.execute(FAULTS)
    yield sql
    sql.execute(NO_FAULTS)


@contextlib.contextmanager
def failing(sql: Sql, car: int, state: str, operation: str = "INSERT") -> Iterator[Callable[[], int]]:
    """Make each write of an assignment of the car fail with this SQLSTATE.

    Yields a function that counts the attempts.
    """
    before = sql.value(TRIES)
    sql.execute("insert into assignment_fault values ($1, $2, $3)", car, operation, state)
    try:
        yield lambda: sql.value(TRIES) - before
    finally:
        sql.execute("delete from assignment_fault where car_id = $1", car)


def test_a_flush_by_a_request_counts_no_attempt(dora: Person) -> None:
    sql = dora.sql
    car, user, other = dora.car_with_box(), dora.user(), dora.car()
    with failing(sql, car, "23514"):
        assert dora.put("/assignments", {"carId": car, "userId": user, "start": START}).status_code == 204
        for _ in range(3):
            refused(dora.delete(f"/cars/{other}"), 503, STUCK)
        row = sql.rows("select state, attempts from operation where customer_id = $1", dora.customer)[0]
        assert tuple(row) == ("Pending", 0)
    assert dora.delete(f"/cars/{other}").status_code == 204
    assert len(dora.get(f"/cars/{car}/assignments").json()) == 1


@pytest.mark.parametrize("state", ["53100", "55P03", "57014", "25006"])
def test_an_interruption_counts_no_attempt(alice: Person, carol: Person, faulty: Sql, state: str) -> None:
    """A full disk, a lock timeout, a cancelled statement, a read-only server."""
    car, user = carol.car_with_box(), carol.user()
    with failing(faulty, car, state) as tries:
        answer = carol.put("/assignments", {"carId": car, "userId": user, "start": START})
        eventually(lambda: tries() > 3, "more tries than an error of its own would get")
        row = faulty.rows("select state, attempts from operation where customer_id = $1", carol.customer)[0]
        assert tuple(row) == ("Pending", 0)
        others = alice.put("/assignments", {"carId": alice.car_with_box(), "userId": alice.user(), "start": START})
        assert outcome(alice, others)["state"] == "Succeeded", "nobody else has to wait for it"
    assert outcome(carol, answer)["state"] == "Succeeded"


def test_an_end_that_fails_permanently_raises_an_alert(
    carol: Person, faulty: Sql, capfd: pytest.CaptureFixture[str]
) -> None:
    car, user = carol.car_with_box(), carol.user()
    assignment = carol.assignment(car, user)
    with failing(faulty, car, "23514", "DELETE"):
        row = outcome(carol, carol.delete(f"/assignments/{assignment}"))
        assert row["state"] == "Failed"
    said = "".join(capfd.readouterr())
    assert "assignment end failed" in said
    assert carol.get(f"/assignments/{assignment}").status_code == 200
    assert outcome(carol, carol.delete(f"/assignments/{assignment}"))["state"] == "Succeeded"
