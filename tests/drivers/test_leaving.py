"""Drivers who leave a customer, or are erased."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.test_operator_commands import Operator
from tests.fleet.endpoints.test_users import MEMBERSHIP
from tests.support.drivers import SignedInDriver, signed_in_driver
from tests.support.people import Person, done
from tests.support.servers import Sql

TABLES = ("driver_account", "driver_access", "driver_session", "driver_passkey", "driver_link", "driver_withdrawn")
PASSKEY = """
insert into driver_passkey (user_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)
values ($1, sha256($1::integer::text::bytea), 'k', 0, '{}', '', 'Security key', false)
"""
LINK = """
insert into driver_link (hash, user_id, customer_id, kind, expires_at)
values (sha256(gen_random_uuid()::text::bytea), $2, $1, 'invitation', now() + interval '1 hour')
"""


def driver_of_both(alice: Person, bob: Person) -> SignedInDriver:
    """A proven driver, whom both customers have invited."""
    driver = signed_in_driver(alice, is_proven=True)
    done(bob.put(MEMBERSHIP, {"emailAddress": driver.address}))
    for person in (alice, bob):
        person.sql.execute(LINK, person.customer, driver.user)
        person.sql.execute(
            "insert into driver_access (customer_id, user_id) values ($1, $2) on conflict do nothing",
            person.customer, driver.user,
        )  # fmt: skip
    alice.sql.execute(PASSKEY, driver.user)
    return driver


def seen(driver: SignedInDriver) -> list[int]:
    """The customers of the session; none if it is not valid."""
    response = driver.get("/session")
    return [customer["id"] for customer in response.json()["customers"]] if response.status_code == 200 else []


def tables_with(sql: Sql, user: int) -> set[str]:
    return {table for table in TABLES if sql.value(f"select exists (select from {table} where user_id = $1)", user)}


def leave(person: Person, user: int) -> None:
    done(person.delete(MEMBERSHIP, {"userId": user}))


def erase(person: Person, user: int) -> None:
    assert person.post(f"/users/{user}/erase").status_code == 204


@pytest.mark.parametrize("leave", [leave, erase])
def test_the_account_ends_with_the_last_customer(
    alice: Person, bob: Person, leave: Callable[[Person, int], None]
) -> None:
    driver = driver_of_both(alice, bob)
    assert seen(driver) == sorted((alice.customer, bob.customer))
    leave(alice, driver.user)
    assert seen(driver) == [bob.customer]
    left = "select count(*) from driver_access where user_id = $1 and customer_id = $2"
    assert alice.sql.value(left, driver.user, alice.customer) == 0
    assert tables_with(alice.sql, driver.user) == set(TABLES) - {"driver_withdrawn"}
    leave(bob, driver.user)
    assert seen(driver) == []
    assert tables_with(alice.sql, driver.user) == set()


def test_a_withdrawal_ends_with_the_membership(alice: Person, bob: Person) -> None:
    """The customer invites a returning person again."""
    driver = driver_of_both(alice, bob)
    alice.sql.execute(
        "insert into driver_withdrawn (customer_id, user_id) values ($1, $2)", alice.customer, driver.user
    )
    assert seen(driver) == [bob.customer]
    leave(alice, driver.user)
    assert tables_with(alice.sql, driver.user) == set(TABLES) - {"driver_withdrawn"}


def test_a_returned_person_has_no_account(alice: Person) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    leave(alice, driver.user)
    done(alice.put(MEMBERSHIP, {"emailAddress": driver.address}))
    assert seen(driver) == []
    assert driver.sign_in(driver.address).status_code in (401, 403)


def test_the_operator_exports_the_account(alice: Person, bob: Person, dsn: str) -> None:
    driver, other = driver_of_both(alice, bob), driver_of_both(alice, bob)
    value = Operator(dsn).value("user", "export", driver.user)
    account = value["driverAccount"]
    assert {row["customerId"] for row in account["accesses"]} == {alice.customer, bob.customer}
    assert [row["name"] for row in account["passkeys"]] == ["Security key"]
    assert [row["device"] for row in account["sessions"]] == ["Chromium, Linux"]
    assert {row["customerId"] for row in value["driverLinks"]} == {alice.customer, bob.customer}
    text = str(value)
    assert driver.address in text and other.address not in text
    assert "argon2" not in text and driver.cookie not in text
