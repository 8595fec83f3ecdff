"""Each request reaches its cell, and a dead one stops no other."""

from __future__ import annotations

import json

import pytest

from keyrack.core.cell_ids import id_range
from keyrack.core.error_codes import DATABASE_AWAY, NO_CUSTOMER
from keyrack.core.settings import CellSettings, Settings
from keyrack.server import cell_lookup
from keyrack.server.cell_credentials import Credential
from keyrack.server.cell_lookup import CellDirectory
from tests.support.cells import NORTH, TwoCells, second_cell, with_cells
from tests.support.database_proxy import DatabaseProxy
from tests.support.people import Person, Town, fetch, refused
from tests.support.servers import RunningServer, Sql, eventually, migrated_database


def test_each_customer_is_served_and_worked_for_in_its_cell(people: tuple[Person, Person]) -> None:
    for person in people:
        car = person.car_with_box()
        assert person.assignment(car, person.user())
        assert [row["id"] for row in person.get("/customers").json()] == [str(person.customer)]
        with person.browser() as browser:
            assert browser.get(f"/{person.customer}/cars").status_code == 200
    assert people[1].customer in id_range(1)


@pytest.mark.parametrize("asks", [0, 1])
def test_a_customer_of_another_cell_is_unknown_like_any_other(asks: int, people: tuple[Person, Person]) -> None:
    """So is a number of a cell that is not configured."""
    person, other = people[asks], people[1 - asks]
    for customer in (other.customer, id_range(5).start, 33_000_000, 2**31 - 1):
        refused(person.get("/cars", headers={"Customer-ID": str(customer)}), 404, NO_CUSTOMER)


def test_the_key_of_another_cell_is_unknown(people: tuple[Person, Person]) -> None:
    key = people[0].headers["vendor-API-Key"]
    assert people[1].get("/cars", headers={"vendor-API-Key": key}).status_code == 401


def test_the_keys_of_tokens_are_those_of_all_cells(two: TwoCells) -> None:
    answer = fetch("GET", f"{two.server.url}/v3/.well-known/jwks.json")
    known = {key["kid"] for key in answer.json()["keys"]}
    for town in two.towns:
        assert town.sql.value("select kid from signing_key") in known
    headers = {"If-None-Match": answer.headers["etag"]}
    assert fetch("GET", f"{two.server.url}/.well-known/jwks.json", headers=headers).status_code == 304


def test_readiness_names_each_cell(two: TwoCells) -> None:
    assert two.ready().status_code == 200
    cells = [
        {"name": "main", "number": 0, "status": "ok"},
        {"name": NORTH, "number": 1, "status": "ok"},
    ]
    assert two.ready().json() == {"status": "ok", "cells": cells}


@pytest.mark.parametrize("dies", [0, 1])
def test_a_cell_that_dies_is_503_for_its_customers_alone_and_comes_back(
    dies: int, two: TwoCells, people: tuple[Person, Person]
) -> None:
    name, other = ("main", NORTH)[dies], (NORTH, "main")[dies]
    stays, dead = people[1 - dies], people[dies]
    two.proxies[dies].cut()
    try:
        for _ in range(5):
            answer = dead.get("/cars")
            assert answer.status_code == 503 and answer.headers["retry-after"] == "1", answer.text
            assert stays.get("/cars").status_code == 200
        eventually(lambda: two.states() == {name: "unavailable", other: "ok"}, "the state of the cell")
        assert two.ready().status_code == 200
        assert fetch("GET", f"{two.server.url}/health").status_code == 200
        assert fetch("GET", f"{two.server.url}/openapi.json").status_code == 200
        keys = fetch("GET", f"{two.server.url}/.well-known/jwks.json").json()["keys"]
        assert len(keys) == 2  # the last keys of the cell that is away
        unknown = {"Authorization": "Bearer e30.e30.x", "vendor-API-Key": "unknown"}
        eventually(lambda: stays.get("/cars", headers=unknown).status_code == 401, "an answer of its own cell")
        refused(stays.client.get("/customers", headers=unknown), 503, DATABASE_AWAY)  # it may be of the dead cell
        assert stays.put("/cars", {"name": "Meanwhile"}).status_code == 201
    finally:
        two.proxies[dies].restore()
    eventually(lambda: dead.get("/cars").status_code == 200, "the cell")
    eventually(lambda: set(two.states().values()) == {"ok"}, "the state of the cell")
    assert dead.assignment(dead.car_with_box(), dead.user())


@pytest.mark.parametrize("place", [0, 1])
def test_a_known_credential_is_looked_up_in_its_own_cell(
    place: int, two: TwoCells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a cell that does not answer delays no known caller of another."""
    asked: list[int] = []
    find = CellDirectory.find

    async def noted(directory: CellDirectory, credential: Credential) -> int:
        asked.append(directory.cell.number)
        return await find(directory, credential)

    monkeypatch.setattr(cell_lookup, "HIT_SECONDS", 0.0)  # no answer counts without a look
    monkeypatch.setattr(CellDirectory, "find", noted)
    person = two.towns[place].person("known")
    assert person.get("/cars").status_code == 200
    asked.clear()
    # Earlier answers count for a minute, or until the cells have seen the change of access by the new person
    eventually(lambda: person.get("/cars").status_code == 200 and asked, "a lookup")
    asked.clear()
    for _ in range(3):
        assert person.get("/cars").status_code == 200
    assert asked == [place] * 3


def test_a_cell_that_is_away_at_startup_stops_no_other(database_server: str, settings: Settings, two: TwoCells) -> None:
    with migrated_database(database_server) as main, second_cell(database_server) as cell:
        proxy, sql, north_sql = DatabaseProxy(cell.url, is_cut=True), Sql(main), Sql(cell.url)
        north = cell.model_copy(update={"url": proxy.dsn})
        with RunningServer(with_cells(settings, north), main) as server:
            person = Town(sql, server).person("main")
            assert person.assignment(person.car_with_box(), person.user())
            state = fetch("GET", f"{server.url}/health/ready")
            reason = {"code": DATABASE_AWAY.code, "detail": DATABASE_AWAY.text}
            assert (state.status_code, state.json()["cells"][1]) == (
                200, {"name": NORTH, "number": 1, "status": "unavailable", "reasons": [reason]},
            )  # fmt: skip
            unknown = {"Authorization": "Bearer e30.e30.x", "vendor-API-Key": "of the other cell"}
            for path in ("/cars", "/no-such-path"):
                answer = fetch("GET", server.url + path, headers=unknown)
                refused(answer, 503, DATABASE_AWAY)
                assert answer.headers["retry-after"] == "1"
            proxy.restore()
            states = eventually(
                lambda: (
                    (cells := fetch("GET", f"{server.url}/health/ready").json()["cells"])[1]["status"] == "ok" and cells
                ),
                "the other cell",
            )
            assert [cell["status"] for cell in states] == ["ok", "ok"]
            late = Town(north_sql, server).person("north")
            assert late.assignment(late.car_with_box(), late.user())
        for each in (proxy, sql, north_sql):
            each.close()


@pytest.mark.parametrize("number", [0, 2])
def test_a_database_of_another_cell_stays_away(
    number: int, database_server: str, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with migrated_database(database_server) as main, migrated_database(database_server) as wrong:
        if number:
            sql = Sql(wrong)
            sql.execute("update cell set number = $1, name = 'other'", number)
            sql.close()
        north = CellSettings(name=NORTH, number=1, url=wrong)
        with RunningServer(with_cells(settings, north), main, worker=False) as server:
            answer = fetch("GET", f"{server.url}/health/ready")
            assert (answer.status_code, answer.json()["cells"][1]["status"]) == (200, "unavailable")
            assert "cars" in json.dumps(fetch("GET", f"{server.url}/openapi.json").json())
