"""`keyrack manager prove` and `add`: the operator proves an address, on a server without mail."""

from __future__ import annotations

import pytest

from tests.auth.test_address_proofs import EVIL, OWN, Account, fresh_address, prepared, proof_of
from tests.auth.test_invitations import code_of, posted, token
from tests.cli.test_operator_commands import Operator
from tests.docs.page_commands import CUSTOMER, VIEWER, run_block
from tests.support.people import Person, Town
from tests.support.servers import eventually


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def test_prove_removes_what_was_set_before_and_prints_a_link(operator: Operator, alice: Person, bob: Person) -> None:
    address = fresh_address()
    attacker = prepared(alice, address)
    with attacker.browser():  # beside the session in which the invitation was accepted
        made = operator.value("manager", "prove", address.upper())
    assert (made["username"], made["provenBy"], made["changed"]) == (address, "operator", True)
    assert [method["kind"] for method in made["removed"]] == ["session", "session"]
    assert token(alice, address, EVIL).status_code == 401
    eventually(lambda: attacker.get("/me", alice.customer).status_code == 401, "the end of the token")
    assert posted(alice, "/password/set", code=code_of(made), new_password=OWN).status_code == 303
    # The second call changes nothing: the new password stays
    again = operator.value("manager", "prove", address)
    assert again == made | {"changed": False, "link": None, "removed": []}
    status, text, _ = operator.quick("manager", "prove", address)
    assert status == 0 and "is already proven" in text and "Nothing was changed." in text
    assert token(alice, address, OWN).status_code == 200
    operator.value("manager", "change", address, "--customer", bob.customer, "--role", "viewer")
    person = Account(address, OWN, bob)
    person.sign_in()
    eventually(lambda: person.get("/cars", bob.customer).status_code == 200, "the further customer")


def test_what_it_prints_for_people(operator: Operator, alice: Person) -> None:
    address = fresh_address()
    prepared(alice, address)
    status, text, _ = operator.quick("manager", "prove", address)
    assert status == 0 and f"is proven: {address}. The password was removed, and so were:\n  session: " in text
    assert "/console/password#" in text and "shown only once" in text
    assert "There is no manager called missing" in operator.refused("manager", "prove", "missing")


def test_a_disabled_manager_gets_no_link(operator: Operator, alice: Person) -> None:
    address = fresh_address()
    prepared(alice, address)
    operator.value("manager", "change", address, "--disable")
    made = operator.value("manager", "prove", address)
    assert (made["changed"], made["link"]) == (True, None)


def test_add_proves_also_for_several_customers(operator: Operator, alice: Person, bob: Person) -> None:
    address = fresh_address()
    made = operator.value(
        "manager", "add", address, "--customer", alice.customer, "--customer", bob.customer, "--role", "viewer"
    )
    assert made.keys() == {"id", "username", "password"} and proof_of(operator, address) == "operator"
    person = Account(address, made["password"], alice)
    person.sign_in()
    assert [person.get("/cars", member.customer).status_code for member in (alice, bob)] == [200, 200]


def test_an_unproven_manager_gets_no_further_customer(operator: Operator, alice: Person, bob: Person) -> None:
    address = fresh_address()
    attacker = prepared(alice, address)
    error = operator.refused("manager", "change", address, "--customer", bob.customer, "--role", "owner")
    assert f"keyrack manager prove {address}" in error
    assert attacker.get("/cars", bob.customer).status_code == 404
    operator.value("manager", "change", address, "--customer", alice.customer, "--role", "auditor")
    eventually(lambda: attacker.get("/changes", alice.customer).status_code == 200, "the other role")


def test_a_name_that_is_no_address_needs_no_proof(operator: Operator, town: Town, bob: Person) -> None:
    """An operator created it with an older release, without an invitation."""
    person = town.person("an old name")
    person.rename(f"{person.username} of before", is_proven=False)
    operator.value("manager", "change", person.username, "--customer", bob.customer, "--role", "viewer")
    headers = {"Customer-ID": str(bob.customer)}
    eventually(lambda: person.get("/cars", headers=headers).status_code == 200, "the further customer")
    person.client.close()


def test_the_list_names_the_proof(operator: Operator, town: Town, alice: Person) -> None:
    address = fresh_address()
    prepared(alice, address)
    assert proof_of(operator, address) is None
    header = operator.quick("manager", "list")[1].splitlines()[0]
    assert "PROVEN BY" in header


def test_the_page_proves_as_it_stands(database_server: str) -> None:
    """The block prove of docs/managers.md."""
    output = run_block(database_server, "docs/managers.md", "prove", before=CUSTOMER + VIEWER)
    assert "is already proven" in output
