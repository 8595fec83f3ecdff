"""Query strings in the style of other implementations' tests, with decisions and reasons.

The table `peer_queries.tsv` has a row for each: status, path, query, the decisive words, the reason. Blanks in a query
are not percent-encoded there, and a tab is `\\t`. The words of a 200 are another query with the same response.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.support.cases import for_all
from tests.support.people import Person

TABLE = Path(__file__).with_name("peer_queries.tsv")
SAFE = "$&=()',;:/@*!%+?[]~"


class Case(NamedTuple):
    """A row of the table."""

    status: str
    path: str
    query: str
    words: str
    reason: str


def read_cases() -> list[Case]:
    with TABLE.open(newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Case(*(cell.replace("\\t", "\t") for cell in row)) for row in rows[1:]]


CASES = read_cases()


@pytest.fixture(scope="module")
def car(alice: Person) -> int:
    """The car `Alpha` in a small fleet that the filters distinguish."""
    alice.car("Beta", brand="BMW", vin="V2", licensePlate="B-2")
    alice.car("Pool car 1", brand="VW", description="not(")
    alice.car("it's", brand="Ä")
    car, user = alice.car_with_box("Alpha"), alice.user()
    alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/brand", "value": "VW"}])
    alice.event(car, user, utcDateTime="2026-05-01T08:00:00Z")
    alice.event(car, user, utcDateTime="2026-05-02T08:00:00Z")
    return car


def address(path: str, query: str, car: int) -> str:
    return f"{path.format(car=car)}?{quote(query, safe=SAFE)}"


@for_all("case", CASES, label=lambda case: f"{case.path}?{case.query}"[:80])
def test_each_query_gets_the_response_of_the_table(alice: Person, car: int, case: Case) -> None:
    answer = alice.get(address(case.path, case.query, car))
    assert answer.status_code == int(case.status), answer.text
    if answer.status_code != 200:
        assert case.words in answer.text
    elif case.words:
        other = alice.get(address(case.path, case.words, car))
        assert (other.status_code, answer.json()) == (200, other.json())


def test_the_table_has_no_duplicate_queries() -> None:
    twice = [case for case, number in Counter((case.path, case.query) for case in CASES).items() if number > 1]
    assert twice == []
    assert len(CASES) >= 300
