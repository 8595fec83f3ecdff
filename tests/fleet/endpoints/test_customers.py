"""Customers that the calling manager may access, and no others."""

from __future__ import annotations

from tests.support.people import JOIN, Person
from tests.support.servers import Sql, eventually


def test_a_manager_sees_its_customers(alice: Person) -> None:
    answer = alice.get("/customers")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [{"id": str(alice.customer), "name": "alice's fleet"}]


def test_another_manager_sees_only_its_own_customers(alice: Person, bob: Person) -> None:
    assert bob.get("/customers").json() == [{"id": str(bob.customer), "name": "bob's fleet"}]


def test_several_customers_are_listed_by_id(carol: Person, sql: Sql) -> None:
    second = sql.value("insert into customer (name) values ('Second') returning customer_id")
    sql.execute(JOIN, carol.username, second, "Viewer")
    assert [row["name"] for row in carol.get("/customers").json()] == ["carol's fleet", "Second"]
    eventually(lambda: carol.get("/cars", headers={"Customer-ID": str(second)}).status_code == 200)


def test_a_manager_without_customers_gets_an_empty_list(carol: Person, sql: Sql) -> None:
    sql.execute("delete from manager_customer where customer_id = $1", carol.customer)
    answer = carol.get("/customers")
    assert (answer.status_code, answer.json()) == (200, [])


def test_a_new_name_of_a_customer_is_shown(carol: Person, sql: Sql) -> None:
    sql.execute("update customer set name = 'Carol & Söhne \"GmbH\"' where customer_id = $1", carol.customer)
    assert carol.get("/customers").json()[0]["name"] == 'Carol & Söhne "GmbH"'
