"""Strict parsing: misspelt, missing and unknown members are errors, never "unlimited"."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.api.schema.request_body import moment, wall_clock
from tests.support.people import Person, done, refused
from tests.support.servers import eventually

PROBLEM = "application/problem+json"
START, END = "2026-01-01T08:00:00Z", "2026-02-01T08:00:00Z"


@pytest.fixture(scope="module")
def car(alice: Person) -> int:
    return alice.car_with_box()


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


# A1: a replace needs a value (RFC 6902, section 4.3)


def test_a_replace_step_without_a_value_does_not_make_an_assignment_unlimited(
    alice: Person, car: int, user: int
) -> None:
    id = alice.assignment(car, user, START, end=END)
    text = "Couldn't update assignment. No valid end provided. A `replace` step must have a `value`."
    refused(alice.patch(f"/assignments/{id}", [{"op": "replace", "path": "/end"}]), 400, text)
    text = "Couldn't update assignment. There is no property 'Value'. Did you mean 'value'?"
    refused(alice.patch(f"/assignments/{id}", [{"op": "replace", "path": "/end", "Value": END}]), 400, text)
    assert alice.get(f"/assignments/{id}").json()["end"] == END
    assert not alice.get(f"/operations?$filter=assignmentId eq {id} and kind eq 'UpdateAssignment'").json()


def test_a_replace_step_without_a_value_is_rejected_everywhere(alice: Person) -> None:
    car, group = alice.car(vin="V"), alice.group("Named")
    hook = alice.put("/webhooks", {"url": "http://127.0.0.1:9/", "enabled": False}).json()["id"]
    for path, member, what in (
        (f"/cars/{car}", "vin", "car"),
        (f"/groups/{group}", "name", "group"),
        (f"/webhooks/{hook}", "enabled", "webhook"),
    ):
        text = f"Couldn't update {what}. No valid {member} provided. A `replace` step must have a `value`."
        for step in ({}, {"Value": "x"}):
            refused(alice.patch(path, [{"op": "replace", "path": f"/{member}", **step}]), 400, text)
        refused(alice.patch(path, []), 400, f"Couldn't update {what}. The patch has no steps.")
    assert alice.get(f"/cars/{car}").json()["vin"] == "V"
    assert alice.get(f"/webhooks/{hook}").json()["enabled"] is False
    done(alice.delete(f"/webhooks/{hook}"))


def test_the_steps_of_a_patch_are_limited(alice: Person) -> None:
    """B11: a patch of a megabyte once blocked all requests for 1.7 s."""
    car, step = alice.car(), {"op": "remove", "path": "/vin"}
    done(alice.patch(f"/cars/{car}", [step] * 50))
    text = "Couldn't update car. A patch has at most 50 steps."
    for steps in ([step] * 51, [step] * 20_000):
        refused(alice.patch(f"/cars/{car}", steps), 400, text)
    answer = alice.patch(f"/cars/{car}", [{"op": "x" * 15}] * 30_000)
    assert (answer.status_code, len(answer.text) < 500) == (400, True)


# A2, A3: unknown members


@pytest.mark.parametrize(
    ("member", "meant"), [("ende", "end"), ("End", "end"), ("car_id", "carId"), ("lifeTime", "lifetime"), ("xyz", None)]
)
def test_a_misspelt_member_grants_nothing(alice: Person, car: int, user: int, member: str, meant: str | None) -> None:
    body = {"carId": car, "userId": user, "start": START, member: END}
    suggestion = f" Did you mean '{meant}'?" if meant else ""
    text = f"Couldn't create assignment. There is no property '{member}'.{suggestion}"
    refused(alice.put("/assignments", body), 400, text)


def test_a_misspelt_member_of_an_event_is_named(alice: Person, car: int, user: int) -> None:
    body = {
        "dateTime": "2026-05-01T10:00:00", "utcDateTime": "2026-05-01T08:00:00Z", "carId": car, "userId": user,
        "type": "CarOpened", "userAgent": "x", "latitute": 1.0,
    }  # fmt: skip
    refused(
        alice.put("/events", body),
        400,
        "Couldn't create event. There is no property 'latitute'. Did you mean 'latitude'?",
    )


def test_only_names_of_the_spec_are_accepted(alice: Person, car: int, user: int) -> None:
    answer = alice.put("/assignments", {"car_id": car, "user_id": user, "start": START})
    assert answer.status_code == 400
    assert answer.text.startswith("Couldn't create assignment. There is no property 'car_id'. Did you mean 'carId'?")
    answer = alice.put("/users", {"email_address": "a@example.org", "user_data": {"first_name": "A", "last_name": "B"}})
    assert (answer.status_code, answer.text) == (
        400,
        "Couldn't create user. No valid emailAddress and userData provided.",
    )


def test_other_bodies_ignore_unknown_members_unless_strict(alice: Person) -> None:
    assert alice.put("/cars", {"name": "A", "colour": "red"}).status_code == 201
    strict = {"Prefer": "respond-async, handling=strict"}
    text = "Couldn't create car. There is no property 'licenceplate'. Did you mean 'licensePlate'?"
    refused(alice.put("/cars", {"name": "A", "licenceplate": "X"}, headers=strict), 400, text)
    assert alice.put("/cars", {"name": "A", "licensePlate": "X"}, headers=strict).status_code == 201
    body: dict[str, Any] = {
        "emailAddress": "strict@example.org",
        "userData": {"firstName": "A", "lastname": "B", "lastName": "B"},
    }
    text = "Couldn't create user. There is no property 'lastname'. Did you mean 'lastName'?"
    refused(alice.put("/users", body, headers=strict), 400, text)
    step = {"op": "replace", "path": "/vin", "value": "x", "from": "/name"}
    refused(
        alice.patch(f"/cars/{alice.car()}", [step], headers=strict),
        400,
        "Couldn't update car. There is no property 'from'.",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "member"),
    [
        ("PUT", "/cars", b'{"name": "First", "brand": "VW", "name": "Second"}', "name"),
        ("PUT", "/groups", b'{"name": "First", "name": "Second"}', "name"),
        (
            "PUT", "/users",
            b'{"emailAddress": "a@b.example", "userData": {"firstName": "A", "lastName": "A", "lastName": "B"}}',
            "lastName",
        ),
        ("PATCH", "/cars/{car}", b'[{"op": "replace", "path": "/model", "value": "A", "value": "B"}]', "value"),
        ("PUT", "/assignments", b'{"carId": 1, "userId": 1, "start": "2026-01-01T08:00:00Z", "carId": 2}', "carId"),
    ],
)  # fmt: skip
def test_a_repeated_member_is_rejected(
    alice: Person, car: int, method: str, path: str, body: bytes, member: str
) -> None:
    """RFC 8259, section 4: parsers differ in which value they use."""
    before = alice.get(f"/cars/{car}").json(), alice.get("/users?$count=true").headers["x-total-count"]
    answer = alice.call(
        method, path.format(car=car), content=body, headers={"Content-Type": "application/json", "Accept": PROBLEM}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "repeated-members")
    assert f"The property '{member}' is given more than once." in answer.json()["detail"]
    assert (alice.get(f"/cars/{car}").json(), alice.get("/users?$count=true").headers["x-total-count"]) == before


def test_a_product_whose_service_is_terminated_cannot_be_installed(alice: Person) -> None:
    """A10."""
    car, box = alice.car(), alice.product()
    alice.service(box, terminated=True)
    answer = alice.put("/installations", {"carId": car, "productId": box})
    refused(answer, 409, "The product has no service assigned.")


# A4: every time of RFC 3339 is accepted, stored in UTC and returned in the spec's form


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2026-01-01T08:00:00Z", "2026-01-01T08:00:00Z"),
        ("2026-01-01T08:00:00.000Z", "2026-01-01T08:00:00Z"),
        ("2026-01-01T08:00:00+00:00", "2026-01-01T08:00:00Z"),
        ("2026-01-01T08:00:00.999999999Z", "2026-01-01T08:00:00Z"),
        ("2026-01-01t08:00:00z", "2026-01-01T08:00:00Z"),
        ("2026-01-01T00:30:00+02:00", "2025-12-31T22:30:00Z"),
        ("2026-01-01T08:00:00-09:30", "2026-01-01T17:30:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.9Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_an_assignment_takes_every_time_of_rfc_3339(alice: Person, car: int, user: int, sent: str, shown: str) -> None:
    id = alice.assignment(car, user, sent, end=sent)
    row = alice.get(f"/assignments/{id}").json()
    assert (row["start"], row["end"]) == (shown, shown)
    other = alice.assignment(car, user, "0001-01-01T00:00:00Z")
    done(alice.patch(f"/assignments/{other}", [{"op": "replace", "path": "/end", "value": sent}]))
    eventually(lambda: alice.get(f"/assignments/{other}").json()["end"] == shown, "the change")
    assert alice.get(f"/cars/{car}/location/{sent}").status_code in (200, 404)


def test_the_time_format_is_named_among_several_errors(alice: Person) -> None:
    answer = alice.put("/assignments", {"carId": "x", "userId": 1, "start": "yesterday"})
    form = "A time must have the format of RFC 3339, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00."
    refused(answer, 400, f"Couldn't create assignment. No valid carId and start provided. {form}")


def test_an_end_within_the_second_of_the_start_is_accepted(alice: Person, car: int, user: int) -> None:
    id = alice.assignment(car, user, "2026-01-01T08:00:00.9Z", end="2026-01-01T08:00:00.1Z")
    assert alice.get(f"/assignments/{id}").json()["end"] == "2026-01-01T08:00:00Z"


@given(
    st.datetimes().filter(lambda at: (1, 1, 3) < (at.year, at.month, at.day) < (9999, 12, 29)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.text("0123456789", max_size=30),
    st.booleans(),
)
def test_every_form_of_a_time_means_the_same_instant(at: datetime, minutes: int, more: str, lower: bool) -> None:
    """A4: any offset, digits below a microsecond and letter case. A wall clock keeps the written time."""
    offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    local = at + timedelta(minutes=minutes)
    text = f"{local:%H:%M:%S.%f}{more}"
    text = f"{local.year:04}-{local:%m-%d}T{text}"
    for written in (text + offset, text + "Z", text):
        form = written.lower() if lower else written
        assert wall_clock(form) == local.replace(tzinfo=UTC)
    assert moment(text + offset) == at.replace(tzinfo=UTC)
    assert moment((text + "z") if lower else text + "Z") == local.replace(tzinfo=UTC)
    with pytest.raises(ValueError, match=r"^A time must have the format of RFC 3339"):
        moment(text)
