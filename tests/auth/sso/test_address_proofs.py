"""Address proofs by a provider: its account is the only sign-in method then.

Inviters see another address.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from keyrack.console.pages.sso import WORDS
from keyrack.core.secret_hashes import digest, new_secret
from tests.auth.sso.conftest import NAME, Visitor
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_accounts import CONNECT, signed_in
from tests.auth.sso.test_invitation_acceptance import ACCEPT, invited, row
from tests.auth.sso.test_login_flow import address, fresh, identities, is_refused, named
from tests.auth.test_address_proofs import EVIL, WAITING, Account, prepared, proof_of
from tests.auth.test_invitations import token
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually


@pytest.fixture(scope="module")
def evil(town: Town) -> Iterator[Person]:
    person = town.person("an owner who prepares accounts")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def bank(town: Town) -> Iterator[Person]:
    person = town.person("the owner of a bank")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def comes_first(visitor: Visitor, **form: str) -> None:
    """A whole sign-in proves the address, and the page lists what is removed."""
    answer = visitor.come(**form)
    assert (answer.status_code, "Other ways to sign in are removed" in answer.text) == (200, True), answer.text
    assert visitor.session is not None


def is_over(attacker: Account, customer: int, federated: RunningServer) -> None:
    """Its password and its token fail in every process."""
    assert token(attacker.owner, attacker.address, attacker.password).status_code == 401
    for url in ("", federated.url + "/v3"):
        eventually(lambda url=url: attacker.get("/me", customer, url).status_code == 401, "the end of the token")


def test_a_prepared_password_is_worth_nothing_when_a_provider_proves_the_address(
    visitor: Visitor, oidc: Oidc, evil: Person, bank: Person, federated: RunningServer, operator: Operator
) -> None:
    email = address("victim")
    attacker = prepared(evil, email)
    code = invited(bank, email, "Owner")
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    comes_first(visitor, path=ACCEPT, code=code)
    assert row(bank, email) == ["Owner"] and proof_of(operator, email) == "provider"
    is_over(attacker, bank.customer, federated)
    home = f"/console/{bank.customer}/settings/managers"
    assert visitor.go(home).status_code == 200, "the person is in"
    assert row(evil, email) == ["Viewer"], "the same address was meant there"


def test_signing_in_by_a_provider_is_a_first_proof_too(
    visitor: Visitor, oidc: Oidc, evil: Person, federated: RunningServer, operator: Operator
) -> None:
    email = address("victim")
    attacker = prepared(evil, email)
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    comes_first(visitor)
    is_over(attacker, evil.customer, federated)
    assert proof_of(operator, email) == "provider"


def test_an_account_with_another_address_is_shown_to_the_inviter(
    visitor: Visitor, oidc: Oidc, evil: Person, bank: Person, sql: Sql
) -> None:
    """An account of another address accepts the prepared invitation."""
    email, trojan, other = address("victim"), fresh(), address("attacker", "other.example")
    oidc.says(trojan, account={"email": other, "email_verified": True})
    assert visitor.come(path=ACCEPT, code=invited(evil, email)).status_code == 303
    (shown,) = [manager for manager in evil.get("/managers").json() if manager["username"] == email]
    assert (shown["acceptedProvider"], shown["acceptedAddress"]) == (NAME, other)
    with evil.browser() as browser:
        page = browser.get(f"/{evil.customer}/settings/managers").text
        assert "Other address" in page and other in page
    query = "/changes?$filter=kind eq 'manager.granted'"
    recorded = eventually(lambda: [change for change in evil.get(query).json() if other in str(change)], "the change")
    assert recorded[0]["after"]["acceptedProvider"] == NAME and recorded[0]["after"]["username"] == email
    # Signed in by it, and by accepting with it
    code = invited(bank, email, "Owner")
    assert "Verify your address" in visitor.go("/console/invitation", {"code": code}).text
    assert visitor.go("/console/invitation/accept", {"code": code}).status_code == 409
    is_refused(Visitor(visitor.url), "unproven", path=ACCEPT, code=code)
    assert row(bank, email) == []
    # The person comes by an account of the same provider, and accepts
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    person = Visitor(visitor.url)
    comes_first(person, path=ACCEPT, code=code)
    assert row(bank, email) == ["Owner"]
    assert visitor.go(f"/console/{bank.customer}/settings").status_code == 303, "its session is over"
    oidc.says(trojan, account={"email": other, "email_verified": True})
    is_refused(Visitor(visitor.url), "unknown")
    (after,) = [manager for manager in evil.get("/managers").json() if manager["username"] == email]
    assert after == shown, "the proof at another customer shows nowhere"


def test_an_account_without_a_verified_address_keeps_nobody_out(
    visitor: Visitor, oidc: Oidc, evil: Person, sql: Sql
) -> None:
    email, trojan = address("victim"), fresh()
    oidc.says(trojan)
    assert visitor.come(path=ACCEPT, code=invited(evil, email)).status_code == 303
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    comes_first(Visitor(visitor.url))
    assert sql.value("select count(*) from manager_identity where subject = $1", trojan) == 0


def test_the_invited_address_itself_is_no_other_address(
    visitor: Visitor, oidc: Oidc, bank: Person, operator: Operator
) -> None:
    email, elsewhere = address("exact"), address("exact", "elsewhere.example")
    for invited_to, proof in ((email, "provider"), (elsewhere, None)):  # the domain of the second is not the provider's
        oidc.says(fresh(), account={"email": invited_to.upper(), "email_verified": True})
        assert Visitor(visitor.url).come(path=ACCEPT, code=invited(bank, invited_to)).status_code == 303
        (shown,) = [manager for manager in bank.get("/managers").json() if manager["username"] == invited_to]
        assert (shown["acceptedProvider"], shown["acceptedAddress"]) == (None, None)
        assert proof_of(operator, invited_to) == proof
    nobody = address("silent")
    oidc.says(fresh())  # the provider has verified no address of it
    assert Visitor(visitor.url).come(path=ACCEPT, code=invited(bank, nobody)).status_code == 303
    (shown,) = [manager for manager in bank.get("/managers").json() if manager["username"] == nobody]
    assert (shown["acceptedProvider"], shown["acceptedAddress"]) == (NAME, None)


def test_an_account_that_was_connected_while_unproven_proves_it_by_accepting(
    visitor: Visitor, oidc: Oidc, bank: Person, town: Town, sql: Sql, operator: Operator
) -> None:
    """The connected account stays if it proves the address. Every other sign-in method is removed."""
    email, subject = address("erik"), fresh()
    person = named(town, email, is_proven=False)
    sql.execute(
        "insert into manager_identity (provider_id, subject, manager_id)"  # as the previous release writes it
        " select provider_id, $1, manager_id from provider, manager where name = $2 and username = $3",
        subject, NAME, email,
    )  # fmt: skip
    oidc.says(subject, account={"email": email, "email_verified": True})
    assert visitor.come().status_code == 303
    assert proof_of(operator, email) is None and token(person, email, person.password).status_code == 200
    comes_first(Visitor(visitor.url), path=ACCEPT, code=invited(bank, email))
    assert proof_of(operator, email) == "provider" and row(bank, email) == ["Dispatcher"]
    assert token(person, email, person.password).status_code == 401
    assert identities(sql, person) == 1
    assert Visitor(visitor.url).come().status_code == 303
    person.client.close()


def test_the_next_holder_of_an_address_is_another_person(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, operator: Operator
) -> None:
    """This holds also if the colleague's account is older than proofs."""
    email = address("left")
    person = named(town, email, is_proven=False)
    for known in (None, email):  # the address of the colleague's account at the provider
        sql.execute(
            "insert into manager_identity (provider_id, subject, manager_id, address)"
            " select provider_id, $1, manager_id, $4 from provider, manager where name = $2 and username = $3",
            fresh(), NAME, email, known,
        )  # fmt: skip
        oidc.says(fresh(), account={"email": email, "email_verified": True})
        is_refused(Visitor(visitor.url), "unknown")
        assert identities(sql, person) == 1 and proof_of(operator, email) is None
        assert token(person, email, person.password).status_code == 200
        sql.execute(
            "delete from manager_identity i using manager m where m.manager_id = i.manager_id and username = $1", email
        )
    person.client.close()


def test_a_mailed_link_proves_the_address_whatever_account_accepts(
    visitor: Visitor, oidc: Oidc, evil: Person, bank: Person, sql: Sql, federated: RunningServer, operator: Operator
) -> None:
    email, other = address("victim"), address("private", "other.example")
    attacker = prepared(evil, email)
    invited(bank, email)
    code = new_secret()  # as the worker makes it when it writes the mail
    sql.execute("update invitation set mailed_hash = $2 where address = $1", email, digest(code))
    oidc.says(fresh(), account={"email": other, "email_verified": True})
    comes_first(visitor, path=ACCEPT, code=code)
    assert row(bank, email) == ["Dispatcher"] and proof_of(operator, email) == "mail"
    is_over(attacker, bank.customer, federated)
    (shown,) = [manager for manager in bank.get("/managers").json() if manager["username"] == email]
    assert shown["acceptedAddress"] == other
    assert Visitor(visitor.url).come().status_code == 303


def test_a_proven_account_keeps_its_password_when_an_account_is_connected(
    visitor: Visitor, oidc: Oidc, town: Town
) -> None:
    email = address("both")
    person = named(town, email)
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    assert visitor.come().status_code == 303
    assert token(person, email, person.password).status_code == 200
    person.client.close()


def test_a_pending_connection_ends_with_the_proof(visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, dsn: str) -> None:
    person = town.person("olga")
    oidc.says(fresh())
    back = visitor.answered(signed_in(visitor, person).begin(CONNECT.format(person.customer)))
    other, answers = Sql(dsn), list[httpx.Response]()
    other.execute("begin")
    other.execute("update manager set sign_outs = sign_outs + 1 where username = $1", person.username)
    request = threading.Thread(target=lambda: answers.append(visitor.go(back)))
    request.start()
    eventually(lambda: sql.value(WAITING, "%from manager where manager_id = $1 for update%") > 0, "the wait")
    other.execute("commit")
    request.join(DEADLINE)
    other.close()
    assert [(answer.status_code, WORDS["other"] in answer.text) for answer in answers] == [(403, True)]
    assert identities(sql, person) == 0
    person.client.close()


def test_a_concurrent_acceptance_connects_nothing_again(
    visitor: Visitor, oidc: Oidc, evil: Person, bank: Person, sql: Sql, dsn: str, operator: Operator
) -> None:
    """The proof removes the account while it accepts the invitation of another customer."""
    email, trojan = address("victim"), fresh()
    oidc.says(trojan, account={"email": address("attacker", "other.example"), "email_verified": True})
    assert visitor.come(path=ACCEPT, code=invited(evil, email)).status_code == 303
    back = Visitor(visitor.url)
    there = back.answered(back.begin(path=ACCEPT, code=invited(bank, email)))
    other, answers = Sql(dsn), list[httpx.Response]()
    other.execute("begin")
    other.execute("update manager set proven_at = now(), proven_by = 'mail' where username = $1", email)
    other.execute("delete from manager_identity where subject = $1", trojan)
    request = threading.Thread(target=lambda: answers.append(back.go(there)))
    request.start()
    eventually(lambda: sql.value(WAITING, "%for no key update%") > 0, "the wait for the proof")
    other.execute("commit")
    request.join(DEADLINE)
    other.close()
    assert [(answer.status_code, WORDS["unknown"] in answer.text) for answer in answers] == [(403, True)]
    assert sql.value("select count(*) from manager_identity where subject = $1", trojan) == 0
    assert row(bank, email) == [] and proof_of(operator, email) == "mail"


def test_a_prepared_account_is_not_signed_in_by_its_password_meanwhile(evil: Person, bank: Person) -> None:
    """The account works for the customer that invited it, until its address is proven."""
    attacker = prepared(evil, address("kim"), EVIL)
    assert attacker.get("/cars", evil.customer).status_code == 200
    assert attacker.get("/cars", bank.customer).status_code == 404
