"""B6: a hostile unit with a valid key reports all units, cars and times of its customer."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

from tests.abuse.conftest import Figures
from tests.support.people import Person
from tests.telemetry.endpoints.test_ingest import Unit, device_key, unit_of

UNITS, LINES = 20, 20_000


def counts(person: Person) -> list[int]:
    return [person.sql.value(f"select count(*) from {table}") for table in ("position", "odometer", "event")]


def lines(units: list[Unit], user: int, kind: str) -> list[str]:
    """Lines that the key may not send: for other units and cars, and for its own in the future."""
    now, told = datetime.now(UTC), []
    for n, unit in zip(range(LINES), itertools.cycle(units), strict=False):
        own = unit is units[0]
        at = (now + (timedelta(minutes=6 + n) if own else timedelta(seconds=-n))).isoformat()
        if kind == "telemetry":
            values = {"currentLatitude": 66, "currentLongitude": 66, "odometer": n, "carDataReadTime": at}
            by_id = {"uniqueId": f"unique-{unit.serial}"}
            told.append(values | ({"serialNumber": unit.serial} if n % 2 or own else by_id))
        else:
            happened = {"dateTime": at, "utcDateTime": at, "carId": unit.car, "userId": user, "userAgent": "x"}
            told.append(happened | {"clientId": f"c{n % 50}"})
    return [json.dumps(line) for line in told]


def test_a_stolen_unit_key_cannot_change_other_units(alice: Person, figures: Figures) -> None:
    units = [unit_of(alice) for _ in range(UNITS)]
    key, user = device_key(alice, units[0].serial), alice.user()
    before = counts(alice)
    taken = 0
    for kind in ("telemetry", "events"):
        told = lines(units, user, kind)
        for first in range(0, LINES, 500):
            headers = {"Device-Key": key, "Content-Type": "application/x-ndjson"}
            body = "\n".join(told[first : first + 500])
            answer = alice.client.post(f"/ingest/{kind}", content=body, headers=headers)
            assert answer.status_code == 200, answer.text
            taken += answer.json()["accepted"] + answer.json()["duplicates"]
    figures.at_most("B6 lines of other units, or of the future, that were taken of 40,000", taken, "lines", 0)
    after = counts(alice)
    figures.at_most("B6 rows that they left", sum(after) - sum(before), "rows", 0)
    assert (taken, after) == (0, before)
    assert {unit.get("location")["latitude"] for unit in units} == {None}
