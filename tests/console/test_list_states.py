"""Lists without rows: an expired session, or an invalid address."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.console.test_lists import PARTIAL
from tests.support.people import Person

HERE = "/{0.customer}/cars"


@pytest.fixture
def visitor(alice: Person) -> Iterator[httpx.Client]:
    with alice.browser() as client:
        yield client


def test_who_is_signed_out_meanwhile_is_told_and_comes_back_to_the_same_list(
    alice: Person, visitor: httpx.Client
) -> None:
    alice.car("Golf of nobody else")
    here = HERE.format(alice)
    visitor.cookies.clear()
    page = visitor.get(f"{here}?q=golf&sort=-name")
    back = f"next=%2Fconsole%2F{alice.customer}%2Fcars%3Fq%3Dgolf%26sort%3D-name"
    assert (page.status_code, page.headers["location"]) == (303, f"/console/sign-in?{back}")
    assert visitor.get(f"{here}.csv").headers["location"].startswith("/console/sign-in?next=")
    searched = visitor.get(f"{here}?q=golf", headers=PARTIAL)
    done = visitor.post(f"{here}/bulk/delete", data={"all": "true", "meant": "true"})
    assert (searched.status_code, done.status_code) == (401, 303)
    assert "You are signed out." in searched.text and "Golf of nobody else" not in searched.text
    assert done.headers["location"].startswith("/console/sign-in?next=")
    assert "Golf of nobody else" in {car["name"] for car in alice.get("/cars").json()}


def test_a_search_in_anothers_fleet_finds_what_is_not_there(alice: Person, bob: Person, visitor: httpx.Client) -> None:
    for path, headers in ((f"{HERE}?q=x", PARTIAL), (f"{HERE}?q=x", {}), (f"{HERE}.csv", {}), (f"{HERE}/x", {})):
        theirs = visitor.get(path.format(bob), headers=headers)
        assert theirs.status_code == 404 and "<tbody" not in theirs.text
    assert visitor.post(f"{HERE.format(bob)}/bulk/delete", data={"all": "true", "meant": "true"}).status_code == 404
    of_theirs = visitor.get(f"{HERE.format(alice)}?group={bob.group('Of Bob')}")
    assert of_theirs.status_code == 200 and "Nothing matches" in of_theirs.text and "Of Bob" not in of_theirs.text


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        ("filter=name eq", 400, "Syntax error at position"),
        ("filter=nothing eq 1", 400, "nothing"),
        ("filter=geo.distance(a,b) lt 1", 501, "The function 'geo.distance' is not supported."),
        ("columns=nothing", 400, "The list has no column nothing."),
        ("q=%00", 400, "The search is too long"),
    ],
)
def test_what_is_not_understood_leaves_the_search_and_a_way_back(
    alice: Person, visitor: httpx.Client, wrong: str, status: int, said: str
) -> None:
    here = HERE.format(alice)
    for headers in ({}, PARTIAL):
        answer = visitor.get(f"{here}?{wrong}", headers=headers)
        assert answer.status_code == status and said in unescape(answer.text)
        assert 'aria-label="Search cars"' in answer.text and 'role="alert"' in answer.text
        assert f'href="/console{here}">Show the whole list</a>' in answer.text
        assert "hx-replace-url" not in answer.headers
    for request in (visitor.get(f"{here}.csv?{wrong}"), visitor.post(f"{here}/bulk/delete?{wrong}", data={"all": "1"})):
        assert request.status_code == status and "<tbody" not in request.text
