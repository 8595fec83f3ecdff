"""Invitations, links to set a password, and the check that a customer keeps an owner."""

from __future__ import annotations

import pytest

from tests.auth.test_invitations import PASSWORD, address, code_of, invited, posted, token
from tests.cli.test_operator_commands import Operator
from tests.docs.page_commands import CUSTOMER, VIEWER, run_block
from tests.support.people import Person, Town
from tests.support.servers import eventually


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def test_an_invitation(operator: Operator, alice: Person) -> None:
    kim = address(alice, "lee")
    made = operator.value("manager", "invite", kim, "--customer", alice.customer, "--role", "viewer")
    assert made["mailed"] is False
    done = posted(alice, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD)
    assert done.status_code == 303
    assert token(alice, kim).status_code == 200
    again = operator.refused("manager", "invite", kim, "--customer", alice.customer, "--role", "viewer")
    assert "already belongs to the customer" in again
    mailed = ("x@example.com", "--customer", alice.customer, "--role", "viewer", "--mail")
    assert "KEYRACK_MAIL_HOST" in operator.refused("manager", "invite", *mailed)
    operator.refused("manager", "invite", "nonsense", "--customer", alice.customer, "--role", "viewer", status=2)
    assert "There is no" in operator.refused("manager", "invite", kim, "--customer", 2_000_000_000, "--role", "viewer")
    assert "KEYRACK_MAIL_HOST" in operator.refused("mail", "test", kim)


def test_a_link_sets_a_password_once(operator: Operator, town: Town) -> None:
    carol = town.person("carol.forgets@example.com")
    first = operator.value("manager", "reset-password", carol.username)
    second = operator.value("manager", "reset-password", carol.username)
    assert posted(carol, "/password", code=code_of(first)).status_code == 404, "only the newest is good"
    assert token(carol, carol.username, carol.password).status_code == 200, "the old one stays until then"
    assert posted(carol, "/password", code=code_of(second)).status_code == 200
    assert posted(carol, "/password/set", code=code_of(second), new_password="short").status_code == 422
    assert posted(carol, "/password/set", code=code_of(second), new_password=PASSWORD).status_code == 303
    assert posted(carol, "/password/set", code=code_of(second), new_password="yet another").status_code == 404
    assert token(carol, carol.username, carol.password).status_code == 401
    assert token(carol, carol.username).status_code == 200
    eventually(lambda: carol.get("/cars").status_code == 401, "the end of the tokens of before")
    assert "no enabled manager called nobody" in operator.refused("manager", "reset-password", "nobody")
    carol.client.close()


def test_no_customer_is_left_without_an_owner_unsaid(operator: Operator, town: Town) -> None:
    owner = town.person("the only owner")
    changes = (
        ("change", owner.username, "--customer", str(owner.customer), "--role", "viewer"),
        ("change", owner.username, "--remove-customer", str(owner.customer)),
        ("change", owner.username, "--disable"),
        ("remove", owner.username),
    )
    for arguments in changes:
        assert "no owner left" in operator.refused("manager", *arguments)
    assert owner.get("/managers").status_code == 200, "nothing of it was done"
    kim = address(owner)
    posted(owner, "/invitation/accept", code=code_of(invited(owner, kim, "Owner")), new="yes", new_password=PASSWORD)
    operator.value("manager", "remove", owner.username)
    assert "no owner left" in operator.refused("manager", "remove", kim)
    operator.value("manager", "remove", kim, "--leave-without-owner")
    owner.client.close()


def test_the_page_invites_as_it_stands(database_server: str) -> None:
    """The block invite of docs/managers.md."""
    output = run_block(database_server, "docs/managers.md", "invite", before=CUSTOMER + VIEWER)
    assert output.count("#") == 2 and "lee@example.com is invited" in output
