"""Address proofs: limits of unproven accounts, and effects of the first proof.

The attacks are those of Sudhodanan and Paverd, "Pre-hijacked accounts" (USENIX Security 2022): an attacker creates the
account of an address before the person with that address does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from keyrack.core.addresses import mail_recipient
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.core.settings import Settings
from tests.auth.mail.test_mail import Inbox, ask, link_in, mail_at, smtp
from tests.auth.test_invitations import code_of, invited, posted, token
from tests.auth.test_mfa import Browser as OwnBrowser
from tests.auth.test_mfa import now, unused, with_app
from tests.cli.test_operator_commands import Operator
from tests.support.people import JOIN, Person, Town, http_client
from tests.support.servers import DEADLINE, NUMBERS, RunningServer, Sql, eventually

EVIL = "the pass phrase of somebody else"
OWN = "the pass phrase of the person"
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like $1"


@pytest.fixture(scope="module")
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture(scope="module")
def mailing(inbox: Inbox, dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """Another process on the same database, which sends mail."""
    with smtp(inbox) as port, RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running:
        yield running


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def evil(town: Town) -> Iterator[Person]:
    person = town.person("an owner who prepares accounts")
    yield person
    person.client.close()


@pytest.fixture
def bank(town: Town) -> Iterator[Person]:
    person = town.person("the owner of a bank")
    yield person
    person.client.close()


@dataclass
class Account:
    """An account, used by a person who knows its password."""

    address: str
    password: str
    owner: Person  # whose server and API key it uses
    token: str = ""

    def sign_in(self) -> None:
        answer = token(self.owner, self.address, self.password)
        assert answer.status_code == 200, answer.text
        self.token = answer.json()["access_token"]

    def get(self, path: str, customer: int, url: str = "") -> httpx.Response:
        base = url or str(self.owner.client.base_url)
        headers = self.owner.headers | {"Authorization": f"Bearer {self.token}", "Customer-ID": str(customer)}
        with http_client() as client:
            return client.get(f"{base.rstrip('/')}{path}", headers=headers)

    @contextmanager
    def browser(self, url: str = "") -> Iterator[httpx.Client]:
        """A browser that is signed in with the password."""
        root = url or str(self.owner.client.base_url.join("/")).rstrip("/")
        with http_client(headers={"Origin": root}, base_url=root) as client:
            answer = client.post("/console/sign-in", data={"username": self.address, "password": self.password})
            assert answer.status_code == 303, answer.text
            yield client


def fresh_address() -> str:
    return f"victim.{next(NUMBERS)}@corp.example"


def prepared(evil: Person, address: str, password: str = EVIL) -> Account:
    """The account of an address, created by its inviter."""
    code = code_of(invited(evil, address, "Viewer"))
    assert posted(evil, "/invitation/accept", code=code, new="yes", new_password=password).status_code == 303
    account = Account(address, password, evil)
    account.sign_in()
    return account


def invited_by_mail(owner: Person, address: str, role: str, mailing: RunningServer, inbox: Inbox) -> str:
    """The code of the link that is mailed to the address."""
    before = len(inbox.to(address))
    with http_client(base_url=mailing.url + "/v3", headers=owner.headers) as client:
        assert client.put("/managers", json={"emailAddress": address, "role": role}).status_code == 201
    mails = eventually(lambda: len(inbox.to(address)) > before and inbox.to(address), "the mail")
    return link_in(inbox.text(mails[-1]))


def reset_code(address: str, mailing: RunningServer, inbox: Inbox) -> str:
    """The code of the mailed link for a new password."""
    before = len(inbox.to(address))
    assert ask(mailing, "/forgot", address=address).status_code == 200
    mails = eventually(lambda: len(inbox.to(address)) > before and inbox.to(address), "the mail")
    return link_in(inbox.text(mails[-1]))


def members(owner: Person) -> list[str]:
    return [row["username"] for row in owner.get("/managers").json()]


def test_a_prepared_password_is_worth_nothing_when_the_invited_person_accepts(
    evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox
) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    code = invited_by_mail(bank, address, "Owner", mailing, inbox)
    page = ask(mailing, "/invitation", code=code)
    assert "has an unverified address" in page.text and "passkeys" in page.text
    assert ask(mailing, "/invitation/accept", code=code, new="yes", new_password="short").status_code == 422
    with attacker.browser() as browser:
        assert ask(mailing, "/invitation/accept", code=code, new="yes", new_password=OWN).status_code == 303
        home = f"/console/{bank.customer}/settings"
        assert "/sign-in" in browser.get(home).headers["location"], "the session is over"
    assert token(bank, address, EVIL).status_code == 401
    for url in ("", mailing.url + "/v3"):  # in every process
        eventually(lambda url=url: attacker.get("/managers", bank.customer, url).status_code == 401, "the end of it")
        assert attacker.get("/me", evil.customer, url).status_code == 401
    person = Account(address, OWN, bank)
    person.sign_in()
    assert person.get("/managers", bank.customer).status_code == 200
    assert person.get("/cars", evil.customer).status_code == 200, "the same address was meant there"


def test_a_reset_by_mail_is_the_first_proof(evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    code = reset_code(address, mailing, inbox)
    page = ask(mailing, "/password", code=code)
    assert "This link proves that the address is yours" in page.text and "Sessions: python-httpx" in page.text
    assert ask(mailing, "/password/set", code=code, new_password=OWN).status_code == 303
    eventually(lambda: attacker.get("/me", evil.customer).status_code == 401, "the end of the token")
    person = Account(address, OWN, bank)
    code = code_of(invited(bank, address, "Owner"))
    with person.browser() as browser:
        assert browser.post("/console/invitation/accept", data={"code": code}).status_code == 303
    assert address in members(bank)


Proof = Callable[[str, RunningServer, Inbox, Operator, Person], None]


def by_invitation(address: str, mailing: RunningServer, inbox: Inbox, _operator: Operator, owner: Person) -> None:
    code = invited_by_mail(owner, address, "Viewer", mailing, inbox)
    assert ask(mailing, "/invitation/accept", code=code, new="yes", new_password=OWN).status_code == 303


def by_reset(address: str, mailing: RunningServer, inbox: Inbox, _operator: Operator, _owner: Person) -> None:
    code = reset_code(address, mailing, inbox)
    assert ask(mailing, "/password/set", code=code, new_password=OWN).status_code == 303


def by_operator(address: str, mailing: RunningServer, _inbox: Inbox, operator: Operator, _owner: Person) -> None:
    code = code_of(operator.value("manager", "prove", address))
    assert ask(mailing, "/password/set", code=code, new_password=OWN).status_code == 303


@pytest.mark.parametrize("proof", [by_invitation, by_reset, by_operator])
def test_the_first_proof_removes_every_sign_in_method(
    proof: Proof, evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox, operator: Operator, sql: Sql
) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    own = OwnBrowser(Person("x", evil.customer, address, EVIL, evil.api_key, evil.client, sql))
    _, codes = with_codes(own, sql)
    with_methods(sql, address)
    waiting = OwnBrowser(own.person)
    assert "/sign-in/second" in waiting.sign_in().headers["location"], "its password was right, a code is to come"
    link = code_of(operator.value("manager", "reset-password", address))
    if proof is by_reset:  # it replaces the open link
        assert posted(evil, "/password", code=link).status_code == 200
    proof(address, mailing, inbox, operator, bank)
    assert posted(evil, "/password", code=link).status_code == 404
    assert token(bank, address, EVIL).status_code == 401
    eventually(lambda: attacker.get("/me", evil.customer).status_code == 401, "the end of the token")
    waiting.show(codes[0])
    assert not own.is_in and not waiting.is_in
    person = Account(address, OWN, bank)
    person.sign_in()  # no second factor is asked for
    assert person.get("/me/factors", 0).json() | {"id": 0} == {
        "id": 0, "hasApp": False, "passkeys": 0, "recoveryCodes": 0, "isNeeded": False,
    }  # fmt: skip
    assert person.get("/me/identities", 0).json() == []
    left = sql.value(
        "select (select count(*) from sign_in_step where manager_id = m.manager_id)"
        " + (select count(*) from session where manager_id = m.manager_id and created_at < m.proven_at)"
        " + (select count(*) from password_link where manager_id = m.manager_id) from manager m where username = $1",
        address,
    )
    assert left == 0
    own.http.close()
    waiting.http.close()


def with_codes(own: OwnBrowser, sql: Sql) -> tuple[str, list[str]]:
    """Set up an app and recovery codes. Returns the app's secret, and the codes."""
    secret = with_app(own)
    unused(sql, own.person)
    own.sign_in()
    assert own.show(now(secret)).status_code == 303
    codes = own.api("POST", "/me/recovery-codes").json()["codes"]
    assert len(codes) == 10
    return secret, codes


def with_methods(sql: Sql, username: str) -> None:
    """A passkey and a connected account of a provider, as their pages write them."""
    number = next(NUMBERS)
    sql.execute(
        "insert into passkey (manager_id, credential_id, public_key, sign_count, transports, aaguid, name,"
        " is_backed_up) select manager_id, $2, 'k', 0, '{}', '', 'Laptop', false from manager where username = $1",
        username, f"passkey {number}".encode(),
    )  # fmt: skip
    sql.execute(
        "with p as (insert into provider (name, label, issuer, client_id, client_secret, algorithms) values"
        " ($2, 'Elsewhere', 'https://elsewhere.example', 'c', '', '{RS256}') returning provider_id)"
        " insert into manager_identity (provider_id, subject, manager_id, address)"
        " select provider_id, 's', manager_id, 'attacker@other.example' from p, manager where username = $1",
        username, f"elsewhere-{number}",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def providers_go(sql: Sql) -> Iterator[None]:
    yield
    sql.execute("delete from provider where name like 'elsewhere-%'")


# Further customers


def test_an_unproven_account_is_refused_at_a_further_customer(
    evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox
) -> None:
    """By the shown link: signed in, and with a new password."""
    address = fresh_address()
    attacker = prepared(evil, address)
    made = invited(bank, address, "Owner")
    code = code_of(made)
    with attacker.browser() as browser:
        shown = browser.post("/console/invitation", data={"code": code})
        assert shown.status_code == 200 and f"keyrack manager prove {address}" in shown.text  # no mail here
        unsent = browser.post("/console/invitation/mail", data={"code": code})
        assert "on its way" not in unsent.text and f"keyrack manager prove {address}" in unsent.text
        assert evil.sql.value("select count(*) from mail where address = $1", address) == 0
        refused = browser.post("/console/invitation/accept", data={"code": code})
        assert refused.status_code == 409 and "no further customer until its address is verified" in refused.text
    new = posted(bank, "/invitation/accept", code=code, new="yes", new_password=OWN)
    assert new.status_code == 409
    assert token(bank, address, OWN).status_code == 401, "nobody sets the password of an account that there is"
    assert attacker.get("/cars", bank.customer).status_code == 404
    assert address not in members(bank) and attacker.get("/cars", evil.customer).status_code == 200
    assert [row["emailAddress"] for row in bank.get("/invitations").json()] == [address], "it may still be accepted"
    # A server that sends mail offers the link that proves
    with attacker.browser(mailing.url) as browser:
        shown = browser.post("/console/invitation", data={"code": code})
        assert "Mail me a link" in shown.text and "manager prove" not in shown.text
        sent = browser.post("/console/invitation/mail", data={"code": code})
        assert sent.status_code == 200 and "on its way" in sent.text
    assert ask(mailing, "/invitation/mail", code=code).status_code == 409, "only for who is signed in with the address"
    (mail,) = eventually(lambda: inbox.to(address), "the mail")
    proof = link_in(inbox.text(mail))
    assert proof != code
    assert ask(mailing, "/invitation/accept", code=proof, new="yes", new_password=OWN).status_code == 303
    assert address in members(bank)


def test_links_to_prove_an_address_are_mailed_seldom(
    evil: Person, bank: Person, mailing: RunningServer, sql: Sql
) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    code = code_of(invited(bank, address, "Owner"))
    with attacker.browser(mailing.url) as browser:
        statuses = [browser.post("/console/invitation/mail", data={"code": code}).status_code for _ in range(12)]
    assert statuses[0] == 200 and statuses[-1] == 429
    sql.execute("delete from rate_limit")


def test_an_account_without_any_customer_stays_unproven(evil: Person, bank: Person) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    (id,) = [row["id"] for row in evil.get("/managers").json() if row["username"] == address]
    assert evil.delete(f"/managers/{id}").status_code == 204
    code = code_of(invited(bank, address, "Owner"))
    with attacker.browser() as browser:
        assert browser.post("/console/invitation/accept", data={"code": code}).status_code == 409
    assert address not in members(bank)


def test_a_mailed_link_makes_a_proven_account(
    evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox, operator: Operator
) -> None:
    address = fresh_address()
    code = invited_by_mail(evil, address, "Viewer", mailing, inbox)
    assert ask(mailing, "/invitation/accept", code=code, new="yes", new_password=OWN).status_code == 303
    assert proof_of(operator, address) == "mail"
    code = code_of(invited(bank, address, "Auditor"))
    with Account(address, OWN, bank).browser() as browser:
        assert browser.post("/console/invitation/accept", data={"code": code}).status_code == 303
    assert address in members(bank)
    # A mailed link gives no access to a proven account: it signs in
    third = invited_by_mail(evil_of(bank), address, "Viewer", mailing, inbox)
    page = ask(mailing, "/invitation", code=third)
    assert "Sign in" in page.text and "new_password" not in page.text
    assert ask(mailing, "/invitation/accept", code=third, new="yes", new_password=EVIL).status_code == 409
    assert token(bank, address, EVIL).status_code == 401


SPELLINGS = (
    ("kim.{}@corp.example", "KIM.{}@corp.example"),  # two mailboxes, if the mail server compares bytes
    ("kim.{}@b\u00fccher.example", "kim.{}@xn--bcher-kva.example"),
)


@pytest.mark.parametrize(("stored", "typed"), SPELLINGS)
def test_another_spelling_of_an_address_gets_no_link_that_proves_it(
    stored: str, typed: str, evil: Person, bank: Person, mailing: RunningServer, inbox: Inbox, operator: Operator
) -> None:
    """The inviter may have the mailbox of the other spelling. The link goes to the spelling of the account."""
    number = next(NUMBERS)
    stored, typed = stored.format(number), typed.format(number)
    early = invited_by_mail(evil, typed, "Viewer", mailing, inbox)  # no manager has the address yet
    prepared(bank, stored, OWN)
    assert ask(mailing, "/invitation/accept", code=early, new="yes", new_password=EVIL).status_code == 409
    assert (proof_of(operator, stored), token(bank, stored, OWN).status_code) == (None, 200)
    sent = len(inbox.taken)
    with http_client(base_url=mailing.url + "/v3", headers=evil.headers) as client:
        assert client.put("/managers", json={"emailAddress": typed, "role": "Viewer"}).status_code == 201
    mail = eventually(lambda: len(inbox.taken) > sent and inbox.taken[-1], "the mail")
    assert inbox.recipients[-1] == mail_recipient(stored)
    code = link_in(inbox.text(mail))
    assert ask(mailing, "/invitation/accept", code=code, new="yes", new_password="a new pass phrase").status_code == 303
    assert proof_of(operator, stored) == "mail" and stored in members(evil)


def evil_of(bank: Person) -> Person:
    """The same owner at a third customer."""
    customer = bank.sql.value("insert into customer (name) values ('A third one') returning customer_id")
    bank.sql.execute(JOIN, bank.username, customer, "Owner")
    third = Person(bank.name, customer, bank.username, bank.password, bank.api_key, bank.client, bank.sql, bank.token)
    third.headers = bank.headers | {"Customer-ID": str(customer)}
    eventually(lambda: third.get("/managers").status_code == 200, "the third customer")
    return third


def proof_of(operator: Operator, username: str) -> str | None:
    (row,) = [row for row in operator.value("manager", "list") if row["username"] == username]
    assert (row["provenAt"] is None) == (row["provenBy"] is None)
    return row["provenBy"]


def test_accounts_of_an_earlier_release_keep_their_sign_in_methods(
    town: Town, bank: Person, evil: Person, sql: Sql, operator: Operator
) -> None:
    """Rows as the previous release writes them."""
    address = fresh_address()
    sql.execute("insert into manager (username, password_hash) values ($1, $2)", address, town.password_hash)
    for owner, role in ((bank, "Owner"), (evil, "Viewer")):
        sql.execute(JOIN, address, owner.customer, role)
    with_methods(sql, address)
    sql.execute(
        "delete from passkey using manager m where m.manager_id = passkey.manager_id and username = $1", address
    )
    account = Account(address, bank.password, bank)
    account.sign_in()
    assert account.get("/managers", bank.customer).status_code == 200
    assert account.get("/cars", evil.customer).status_code == 200
    assert len(account.get("/me/identities", 0).json()) == 1
    assert proof_of(operator, address) is None
    third = town.person("a third owner")
    code = code_of(invited(third, address, "Viewer"))
    with account.browser() as browser:
        assert browser.post("/console/invitation/accept", data={"code": code}).status_code == 409
    third.client.close()
    account.sign_in()
    assert len(account.get("/me/identities", 0).json()) == 1, "a refusal removes nothing"


def test_another_address_is_not_proven(town: Town, operator: Operator) -> None:
    person = town.person("renata")
    assert proof_of(operator, person.username) == "operator"
    person.rename(fresh_address(), is_proven=False)
    assert proof_of(operator, person.username) is None
    person.client.close()


def test_a_link_to_the_old_address_proves_no_new_one(
    evil: Person, mailing: RunningServer, inbox: Inbox, operator: Operator
) -> None:
    """A link was mailed before the manager got another address."""
    old, new = fresh_address(), fresh_address()
    prepared(evil, old)
    mailed = reset_code(old, mailing, inbox)
    operator.value("manager", "change", old, "--username", new)
    assert ask(mailing, "/password", code=mailed).status_code == 404
    assert ask(mailing, "/password/set", code=mailed, new_password=OWN).status_code == 404
    assert (proof_of(operator, new), token(evil, new, OWN).status_code) == (None, 401)


def test_a_link_made_during_a_change_is_for_no_other_address(
    evil: Person, mailing: RunningServer, inbox: Inbox, sql: Sql, dsn: str
) -> None:
    """The worker waits for the change of the address."""
    old, new = fresh_address(), fresh_address()
    prepared(evil, old)
    other = Sql(dsn)
    other.execute("begin")
    other.execute("update manager set username = $2 where username = $1", old, new)
    assert ask(mailing, "/forgot", address=old).status_code == 200
    eventually(lambda: sql.value(WAITING, "%not is_disabled for no key update%") > 0, "the wait for the change")
    other.execute("commit")
    other.close()
    eventually(lambda: sql.value("select count(*) from mail where address = $1", old) == 0, "the end of the mail")
    assert inbox.to(old) == inbox.to(new) == []
    open_links = "select count(*) from password_link join manager using (manager_id) where username = $1"
    assert sql.value(open_links, new) == 0


def test_a_link_of_an_older_release_is_no_proof(
    evil: Person, mailing: RunningServer, inbox: Inbox, operator: Operator, sql: Sql
) -> None:
    """It replaces a mailed one in the same row, and does not know proofs."""
    address = fresh_address()
    prepared(evil, address)
    reset_code(address, mailing, inbox)
    code = new_secret()
    sql.execute(
        "update password_link l set hash = $2 from manager m where m.manager_id = l.manager_id and username = $1",
        address, digest(code),
    )  # fmt: skip
    assert posted(evil, "/password/set", code=code, new_password=OWN).status_code == 303
    assert proof_of(operator, address) is None


# Privacy


def test_a_shown_link_reveals_no_account(town: Town, evil: Person, bank: Person) -> None:
    """The page is the same without an account, for an unproven and for a proven one."""
    proven = town.person("proven")
    proven.rename(fresh_address())
    unproven = fresh_address()
    prepared(evil, unproven)
    pages: set[str] = set()
    for address in (proven.username, unproven, fresh_address()):
        made = invited(bank, address, "Viewer")
        page = posted(bank, "/invitation", code=code_of(made))
        short = posted(bank, "/invitation/accept", code=code_of(made), new_password="short")
        assert (page.status_code, short.status_code) == (200, 422)
        shown = page.text + short.text
        pages.add(shown.replace(code_of(made), "CODE").replace(address, "ADDRESS"))
        assert bank.delete(f"/invitations/{made['id']}").status_code == 204
    assert len(pages) == 1
    proven.client.close()


def test_proofs_are_recorded_for_the_installation_alone(
    evil: Person, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    address = fresh_address()
    prepared(evil, address)
    code = reset_code(address, mailing, inbox)
    ask(mailing, "/password/set", code=code, new_password=OWN)
    log = "select customer_id, after from change_inbox union all select customer_id, after from change"
    recorded = f"select customer_id from ({log}) c where after->>'provenBy' = 'mail' and customer_id in (0, $1)"
    assert {row["customer_id"] for row in sql.rows(recorded, evil.customer)} == {0}


# A reset of an account whose address is proven


def test_a_reset_lists_other_sign_in_methods_and_removes_chosen_ones(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    person = town.person("carol")
    person.rename(fresh_address())
    own = OwnBrowser(person)
    secret, codes = with_codes(own, sql)
    with_methods(sql, person.username)
    code = reset_code(person.username, mailing, inbox)
    page = ask(mailing, "/password", code=code)
    for text in (
        "Passkey Laptop",
        "Authenticator app",
        "Recovery codes: 10 left",
        "Account of Elsewhere: attacker@other.e",
        "Sessions that end when you save: python-httpx",
    ):
        assert text in page.text, text
    keys = {kind: key for key, kind in re.findall(r'value="((\w+)-\d+)"', page.text)}
    assert {"passkey", "app", "recovery", "identity"} <= keys.keys()
    # A mailbox alone does not replace a second factor
    for factor_code in ("", "000000"):
        answer = posted_with(
            mailing, code=code, new_password=OWN, remove=[keys["passkey"], keys["identity"]], factor_code=factor_code
        )
        assert answer.status_code == 422 and "The code is wrong" in answer.text
    assert len(own.api("GET", "/me/passkeys").json()) == 1
    unused(sql, person)
    answer = posted_with(
        mailing, code=code, new_password=OWN, remove=[keys["passkey"], keys["identity"]], factor_code=now(secret)
    )
    assert answer.status_code == 303
    assert not own.is_in
    again = OwnBrowser(person)
    person.password = OWN
    again.sign_in()
    assert again.show(codes[0]).status_code == 303, "the app and the codes are still there"
    factors = again.api("GET", "/me/factors").json()
    assert (factors["hasApp"], factors["passkeys"], factors["recoveryCodes"]) == (True, 0, 9)
    assert again.api("GET", "/me/identities").json() == []
    own.http.close()
    again.http.close()
    person.client.close()


def test_an_identity_is_removed_without_a_code_and_nothing_without_a_choice(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    person = town.person("carla")
    person.rename(fresh_address())
    with_methods(sql, person.username)
    code = reset_code(person.username, mailing, inbox)
    page = ask(mailing, "/password", code=code)
    assert "Passkey Laptop" in page.text and 'value="passkey-' not in page.text, "no code, so it is not offered"
    assert "To remove a passkey, sign in with one" in page.text
    assert posted_with(mailing, code=code, new_password=OWN, remove=[]).status_code == 303
    count = "select count(*) from manager_identity join manager using (manager_id) where username = $1"
    assert sql.value(count, person.username) == 1
    code = reset_code(person.username, mailing, inbox)
    identity = re.search(r'value="(identity-\d+)"', ask(mailing, "/password", code=code).text)
    assert identity is not None
    assert posted_with(mailing, code=code, new_password=OWN, remove=[identity[1], "identity-1"]).status_code == 303
    assert sql.value(count, person.username) == 0
    person.client.close()


def test_the_operators_link_is_no_proof(evil: Person, operator: Operator, sql: Sql) -> None:
    """The operator may give it to another person. The command lists the other sign-in methods."""
    address = fresh_address()
    prepared(evil, address)
    with_methods(sql, address)
    made = operator.value("manager", "reset-password", address)
    kinds = sorted(
        (method["kind"], method["address"]) for method in made["signInMethods"] if method["kind"] != "session"
    )
    assert kinds == [("identity", "attacker@other.example"), ("passkey", None)]
    assert posted(evil, "/password/set", code=code_of(made), new_password=OWN).status_code == 303
    assert proof_of(operator, address) is None
    text = operator.quick("manager", "reset-password", address)[1]
    assert "passkey Laptop" in text and "connected account: Elsewhere attacker@other.example" in text


def posted_with(server: RunningServer, **form: Any) -> httpx.Response:
    with http_client() as browser:
        return browser.post(f"{server.url}/console/password/set", data=form, headers={"Origin": server.url})


# Concurrent requests


@pytest.mark.parametrize(
    ("method", "path", "body", "waits"),
    [
        ("POST", "/me/totp", None, "%for no key update%"),
        ("POST", "/me/passkeys/options", None, "%for no key update%"),
        (
            "PUT",
            "/me/password",
            {"currentPassword": EVIL, "newPassword": "another pass phrase"},
            "%password_hash = $2%",
        ),
    ],
)
def test_a_request_from_before_the_proof_sets_no_sign_in_method(
    method: str, path: str, body: Any, waits: str, evil: Person, sql: Sql, dsn: str
) -> None:
    address = fresh_address()
    attacker = prepared(evil, address)
    answers: list[httpx.Response] = []
    other = Sql(dsn)
    with attacker.browser() as browser:
        other.execute("begin")
        other.execute(
            "update manager set sign_outs = sign_outs + 1, password_hash = 'none' where username = $1", address
        )
        request = threading.Thread(
            target=lambda: answers.append(browser.request(method, f"/console/api{path}", json=body))
        )
        request.start()
        eventually(lambda: sql.value(WAITING, waits) > 0, "the request's wait for the proof")
        other.execute("commit")
        request.join(DEADLINE)
    other.close()
    assert [answer.status_code for answer in answers] == [403], [answer.text for answer in answers]
    assert sql.value("select password_hash from manager where username = $1", address) == "none"


def test_a_concurrent_acceptance_ends_with_the_session(evil: Person, bank: Person, sql: Sql, dsn: str) -> None:
    """The proof ends the session whose owner accepts the invitation of another customer."""
    address = fresh_address()
    attacker = prepared(evil, address)
    code = code_of(invited(bank, address, "Owner"))
    answers: list[httpx.Response] = []
    other = Sql(dsn)
    with attacker.browser() as browser:
        other.execute("begin")
        other.execute(
            "update manager set proven_at = now(), proven_by = 'mail', sign_outs = sign_outs + 1 where username = $1",
            address,
        )
        request = threading.Thread(
            target=lambda: answers.append(browser.post("/console/invitation/accept", data={"code": code}))
        )
        request.start()
        eventually(lambda: sql.value(WAITING, "%for no key update%") > 0, "the wait for the proof")
        other.execute("commit")
        request.join(DEADLINE)
    other.close()
    assert [answer.status_code for answer in answers] == [409]
    assert address not in members(bank)
