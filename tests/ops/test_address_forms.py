"""Normal forms of addresses from an older release: rows match without one, get it once, and never merge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from string import ascii_letters
from typing import Any

import pytest

from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.db.connection import Database
from keyrack.ops.housekeeping import STEPS, Housekeeping
from tests.cli.test_operator_commands import Operator
from tests.support.people import PASSWORD, Person, Town
from tests.support.servers import RunningServer, Sql, eventually, migrated_database

UNICODE, A_LABELS = "kim@bücher.example", "kim@xn--bcher-kva.example"
MARKS = "select manager_id, has_address_conflict, is_disabled from manager order by manager_id"
SEALED = "'x', 'x', 'x', '', '{RS256}'"


class House:
    """A separate database whose housekeeping the test runs."""

    def __init__(self, dsn: str, sql: Sql) -> None:
        self.dsn, self.sql = dsn, sql
        self.operator = Operator(dsn)

    def tidy(self) -> None:
        """Run the housekeeping steps of normal forms."""
        asyncio.run(self._tidy())

    async def _tidy(self) -> None:
        acting.set(system("housekeeping"))
        settings = Settings(housekeeping_rows=50)
        db = await Database.connect(self.dsn, settings, size=2)
        steps = [step for step in STEPS if step.name.startswith("normal forms")]
        keeping = Housekeeping(db, settings, steps)
        await db.execute("insert into housekeeping (step) select unnest($1::text[])", [step.name for step in steps])
        while await keeping.one():
            pass
        failures = [
            row["last_error"] for row in await db.fetch("select last_error from housekeeping where failures > 0")
        ]
        await db.execute("delete from housekeeping")
        await db.close()
        assert failures == []

    def manager(self, name: str) -> int:
        """A manager row as an older release inserts it."""
        return self.sql.value("insert into manager (username) values ($1) returning manager_id", name)

    def person(self, address: str) -> int:
        statement = "insert into person (email_address, type) values ($1, 'Anonymous') returning user_id"
        return self.sql.value(statement, address)

    def complaints(self) -> list[dict[str, Any]]:
        """The warnings of `keyrack doctor` about addresses."""
        _, output, _ = self.operator.quick("doctor", "--json")
        checks = json.loads(output)["checks"]
        return [check for check in checks if check["check"] == "addresses" and check["result"] != "ok"]


@pytest.fixture
def house(database_server: str) -> Iterator[House]:
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        yield House(dsn, sql)


@pytest.mark.parametrize("name", ["Demo", "Kim@Mail.Example", "jürgen@mail.example", "Jürgen@Mail.Example", "JÜRGEN"])
def test_a_row_without_a_normal_form_matches(house: House, name: str) -> None:
    id = house.manager(name)
    typed = name.translate(str.maketrans(ascii_letters, ascii_letters.swapcase()))
    assert house.operator.value("manager", "sign-out", typed)["id"] == id
    assert "no manager" in house.operator.refused("manager", "sign-out", chr(ord(name[0]) + 0xFEE0) + name[1:])


def test_normal_forms_are_filled_in_batches(house: House) -> None:
    house.sql.execute(
        "insert into manager (username) select 'Kim' || n || '@Mail.Example' from generate_series(1, 120) n"
    )
    house.sql.execute(
        "insert into person (email_address, type)"
        " select 'Kim' || n || '@Bücher.Example', 'Normal' from generate_series(1, 120) n"
    )
    house.tidy()
    assert house.sql.value("select count(*) from manager where address_form = lower(username)") == 120
    filled = "select count(*) from person where address_form = 'kim' || substring(email_address, '[0-9]+') || $1"
    assert house.sql.value(filled, "@xn--bcher-kva.example") == 120
    assert house.complaints() == []


@pytest.mark.parametrize("is_later_first", [False, True])
def test_two_managers_with_one_address_are_both_kept(house: House, *, is_later_first: bool) -> None:
    """The earlier manager owns the address, in whatever order the rows get their forms."""
    first, second = house.manager(UNICODE), house.manager(A_LABELS)
    if is_later_first:
        house.sql.execute("update manager set address_form = $2 where manager_id = $1", second, A_LABELS)
    house.tidy()
    assert [tuple(row) for row in house.sql.rows(MARKS)] == [(first, False, False), (second, True, True)]
    for name in (UNICODE, A_LABELS):
        assert house.operator.value("manager", "sign-out", name)["id"] == first
    (complaint,) = house.complaints()
    assert all(text in complaint["text"] for text in (UNICODE, A_LABELS, f"{first} (", f"{second} ("))
    assert f"keyrack manager change {second} --username NAME --enable" in complaint["action"]
    house.operator.value("manager", "change", second, "--username", "lee@mail.example", "--enable")
    assert house.operator.value("manager", "sign-out", "LEE@mail.example")["id"] == second
    assert house.complaints() == []
    refused = house.operator.refused("manager", "change", second, "--username", "KIM@bücher.example")
    assert "already a manager" in refused


def test_a_removed_manager_releases_the_address(house: House) -> None:
    first, second, third = house.manager(UNICODE), house.manager(A_LABELS), house.manager("kim@BÜCHER。example")
    house.tidy()
    house.operator.value("manager", "remove", first)
    house.tidy()
    assert [tuple(row) for row in house.sql.rows(MARKS)] == [(second, False, True), (third, True, True)]


def test_two_persons_with_one_address_are_both_kept(house: House) -> None:
    first, second = house.person(UNICODE), house.person(A_LABELS)
    house.tidy()
    for address in (UNICODE, A_LABELS):
        assert house.operator.value("user", "export", address)["person"]["id"] == first
    (complaint,) = house.complaints()
    assert f"keyrack user change {second} --address ADDRESS" in complaint["action"]
    assert "already exists" in house.operator.refused("user", "change", second, "--address", "KIM@bücher.example")
    house.operator.value("user", "change", second, "--address", "lee@mail.example")
    assert house.operator.value("user", "export", "LEE@mail.example")["person"]["id"] == second
    assert house.complaints() == []


def test_a_normal_form_follows_its_address(house: House) -> None:
    """SQL of an operator or an older release changes the address alone."""
    id = house.operator.value("customer", "add", "Harbour")["id"]
    added = ("--customer", id, "--role", "viewer", "--no-password")
    manager = house.operator.value("manager", "add", "Kim@mail.example", *added)["id"]
    house.sql.execute("update manager set username = 'lee@mail.example' where manager_id = $1", manager)
    assert house.operator.value("manager", "sign-out", "LEE@mail.example")["id"] == manager
    assert "no manager" in house.operator.refused("manager", "sign-out", "kim@mail.example")
    house.tidy()
    assert house.sql.value("select address_form from manager") == "lee@mail.example"


def test_domains_of_providers_get_their_normal_form(house: House) -> None:
    ids = [
        house.sql.value(
            "insert into provider (name, label, issuer, client_id, client_secret, algorithms)"
            f" values ($1, {SEALED}) returning provider_id", name,
        ) for name in ("corp", "shop")
    ]  # fmt: skip
    for provider, domain in zip(
        (*ids, ids[0]), ("bücher.example", "xn--bcher-kva.example", "mün.example"), strict=True
    ):
        house.sql.execute("insert into provider_domain (domain, provider_id) values ($2, $1)", provider, domain)
    house.tidy()
    domains = {row["domain"]: row["provider_id"] for row in house.sql.rows("select * from provider_domain")}
    assert domains == {"bücher.example": ids[0], "xn--bcher-kva.example": ids[1], "xn--mn-xka.example": ids[0]}
    (complaint,) = house.complaints()
    remedy = ("provider", "change", "corp", "--remove-domain", "bücher.example")
    assert " ".join(("keyrack", *remedy)) in complaint["action"]
    house.operator.value(*remedy)
    assert house.complaints() == []
    domains = house.sql.value("select array_agg(domain order by domain) from provider_domain")
    assert domains == ["xn--bcher-kva.example", "xn--mn-xka.example"]


def test_a_marked_manager_is_signed_out(house: House, settings: Settings) -> None:
    with RunningServer(settings, house.dsn, worker=False) as server:
        town = Town(house.sql, server)
        people: list[Person] = [town.person(name) for name in ("kim", "lee")]
        for person, name in zip(people, (UNICODE, A_LABELS), strict=True):
            house.sql.execute("update manager set username = $2 where username = $1", person.username, name)
        assert [person.get("/cars").status_code for person in people] == [200, 200]
        house.tidy()
        forms = [{"username": name, "password": PASSWORD, "grant_type": "password"} for name in (UNICODE, A_LABELS)]
        headers = {"vendor-API-Key": people[0].api_key}
        tokens = [people[0].client.post("/oauth2/token", data=form, headers=headers) for form in forms]
        assert [answer.status_code for answer in tokens] == [200, 200], "both texts are the first manager's address"
        people[0].headers["Authorization"] = f"Bearer {tokens[1].json()['access_token']}"
        assert people[0].get("/cars").status_code == 200
        eventually(lambda: people[1].get("/cars").status_code == 404, "the end of the other one's token")
        for person in people:
            person.client.close()
