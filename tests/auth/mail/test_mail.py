"""Mails to a real SMTP server: contents, retries, and no disclosure."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from keyrack.auth import password_reset
from keyrack.core.settings import Settings
from tests.auth.test_invitations import PASSWORD, address, code_of, posted, token
from tests.auth.test_mfa import Browser
from tests.cli.test_operator_commands import Operator
from tests.docs.code_blocks import block
from tests.offline_keys.offline_world import driver
from tests.support.log_lines import captured_events
from tests.support.people import Person, Town, fetch, http_client
from tests.support.servers import DEADLINE, NUMBERS, RunningServer, Sql, eventually, free_port, migrated_database
from tests.support.tls import certificate

pytestmark = pytest.mark.cluster

USER, SECRET = "keyrack", "the password of the mailbox"


class Inbox:
    """The mails of a server.

    `answers` are its next replies to a mail, `recipient_answers` those to a recipient; "" accepts.
    """

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.recipients: list[str] = []
        self.answers: list[str] = []
        self.recipient_answers: list[str] = []

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.recipient_answers and (answer := self.recipient_answers.pop(0)):
            return answer
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        if self.answers and (answer := self.answers.pop(0)):
            return answer
        assert isinstance(envelope.content, bytes)
        self.recipients += envelope.rcpt_tos
        self.taken.append(message_from_bytes(envelope.content))
        return "250 OK"

    def to(self, address: str) -> list[Message]:
        return [mail for mail in self.taken if mail["To"] == address]

    def text(self, mail: Message) -> str:
        content = mail.get_payload(decode=True)
        assert isinstance(content, bytes)
        return content.decode()


@contextmanager
def smtp(inbox: Inbox, port: int = 0, **options: Any) -> Iterator[int]:
    port = port or free_port()
    controller = Controller(inbox, hostname="127.0.0.1", port=port, **options)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture(scope="module")
def mailing(inbox: Inbox, dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that sends mail."""
    with smtp(inbox) as port, RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running:
        yield running


def mail_at(port: int, **more: Any) -> dict[str, Any]:
    return {
        "mail_host": "127.0.0.1",
        "mail_port": port,
        "mail_tls": "none",
        "mail_from": "Keyrack <k@example.com>",
    } | more


@pytest.fixture
def owner(town: Town) -> Iterator[Person]:
    person = town.person("an owner who writes")
    yield person
    person.client.close()


def ask(server: RunningServer, path: str, **form: str) -> httpx.Response:
    with http_client() as browser:
        return browser.post(f"{server.url}/console{path}", data=form, headers={"Origin": server.url})


def link_in(text: str) -> str:
    found = re.search(r"\S+/console/\w+#(\S+)", text)
    assert found is not None, text
    return found[1]


def test_an_invitation_is_mailed_with_a_link_of_its_own(owner: Person, mailing: RunningServer, inbox: Inbox) -> None:
    kim = address(owner, "mailed")
    owner.sql.execute("update manager set language = 'de' where username = $1", owner.username)
    with http_client(base_url=mailing.url + "/v3", headers=owner.headers) as client:
        made = client.put("/managers", json={"emailAddress": kim, "role": "Viewer"}).json()
    assert made["mailed"] is True
    (mail,) = eventually(lambda: inbox.to(kim), "the mail")
    assert mail["From"] == "Keyrack <k@example.com>" and mail["Auto-Submitted"] == "auto-generated"
    assert mail["Subject"].startswith("Einladung zu Keyrack") and "Betrachter" in inbox.text(mail)
    code = link_in(inbox.text(mail))
    assert code != code_of(made)
    waiting = "select count(*) from mail where address = $1"
    eventually(lambda: owner.sql.value(waiting, kim) == 0, "what is sent is forgotten")
    accepted = ask(mailing, "/invitation/accept", code=code, new="yes", new_password=PASSWORD)
    assert accepted.status_code == 303
    assert posted(owner, "/invitation", code=code_of(made)).status_code == 404, "both links are over"


def test_a_forgotten_password(town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql) -> None:
    carol = town.person("carol")
    mailbox = f"carol.{carol.customer}@example.com"
    sql.execute("update manager set username = $2 where username = $1", carol.username, mailbox)
    answers = [ask(mailing, "/forgot", address=name) for name in (mailbox, f"nobody.{mailbox}")]
    first, second = ((one.status_code, one.content) for one in answers)
    assert first == second
    assert [sorted(one.headers) for one in answers[:1]] == [sorted(one.headers) for one in answers[1:]]
    (mail,) = eventually(lambda: inbox.to(mailbox), "the mail")
    eventually(lambda: sql.value("select count(*) from mail") == 0, "the look at the other address")
    assert not inbox.to(f"nobody.{mailbox}")
    code = link_in(inbox.text(mail))
    assert ask(mailing, "/password/set", code=code, new_password=PASSWORD).status_code == 303
    assert token(carol, mailbox).status_code == 200
    assert ask(mailing, "/password/set", code=code, new_password="another one").status_code == 404
    carol.client.close()


@pytest.mark.parametrize("language", ["en", "de"])
def test_many_wrong_codes_are_mailed_once_a_day(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql, language: str
) -> None:
    person = town.person("kai")
    mailbox = f"kai.{person.customer}@example.com"
    sql.execute(
        "update manager set username = $2, language = $3 where username = $1", person.username, mailbox, language
    )
    person.username = mailbox
    with closing(Browser(person).http) as http:
        http.post("/console/sign-in", data={"username": mailbox, "password": person.password})
        customer = {"Customer-ID": str(person.customer)}
        http.post("/console/api/me/totp", headers=customer)
        # The limit on codes is the manager's, so confirming takes from it as well
        for _ in range(3 * mailing.settings.mfa_code_burst):
            headers = {"Origin": mailing.url, "Cookie": "; ".join(f"{c.name}={c.value}" for c in http.cookies.jar)}
            sql.execute("delete from rate_limit where key like 'codes:%'")
            answer = fetch(
                "PUT", f"{mailing.url}/console/api/me/totp", json={"code": "000000"}, headers=headers | customer
            )
            assert answer.status_code == 422
    (mail,) = eventually(lambda: inbox.to(mailbox), "the mail")
    eventually(lambda: sql.value("select count(*) from mail where address = $1", mailbox) == 0, "the queue's end")
    assert len(inbox.to(mailbox)) == 1
    subject = str(make_header(decode_header(mail["Subject"])))
    assert subject.startswith({"en": "Many wrong codes", "de": "Viele falsche Codes"}[language])
    assert mailbox in inbox.text(mail) and f"{mailing.url}/console" in inbox.text(mail)


def renamed(town: Town, username: str) -> Person:
    """A manager whose user name is an address."""
    person = town.person("boss")
    person.sql.execute("update manager set username = $2 where username = $1", person.username, username)
    person.client.close()
    return person


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("boss{}@ma\u0130l.example", "boss{}@mail.example"),
        ("b\u0130ss{}@mail.example", "biss{}@mail.example"),
        ("\u212aim{}@mail.example", "kim{}@mail.example"),
        ("ｂoss{}@mail.example", "boss{}@mail.example"),
    ],
)
def test_an_address_that_folds_into_a_stored_one_finds_no_manager(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql, typed: str, stored: str
) -> None:
    number = next(NUMBERS)
    renamed(town, stored.format(number))
    before = len(inbox.taken)
    assert ask(mailing, "/forgot", address=typed.format(number)).status_code == 200
    eventually(lambda: sql.value("select count(*) from mail") == 0, "the look at the address")
    assert len(inbox.taken) == before
    link = "select count(*) from password_link join manager using (manager_id) where username = $1"
    assert sql.value(link, stored.format(number)) == 0


@pytest.mark.parametrize("typed", ["BOSS{}@Mail.Example", "boss{}@ｍａｉｌ.example", "boss{}@mail。example"])
def test_the_mail_goes_to_the_stored_address(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql, typed: str
) -> None:
    number = next(NUMBERS)
    stored = f"Boss{number}@mail.example"
    renamed(town, stored)
    assert ask(mailing, "/forgot", address=typed.format(number)).status_code == 200
    (mail,) = eventually(lambda: inbox.to(stored), "the mail")
    assert f"account {stored} in" in inbox.text(mail)
    eventually(lambda: sql.value("select count(*) from mail") == 0, "what is sent is forgotten")


def test_one_mail_waits_for_each_person(settings: Settings, own: str) -> None:
    """Also for two concurrent requests, whatever the spelling."""
    address = f"many.{next(NUMBERS)}@mail.example"
    first, observer = Sql(own), Sql(own)
    with RunningServer(settings.model_copy(update=mail_at(free_port())), own, worker=False) as server:
        first.execute("begin")  # as another process does it
        first.rows(password_reset.ONE_AT_A_TIME, address)
        first.rows(password_reset.ASK, address, settings.mail_waiting)
        second = threading.Thread(target=ask, args=(server, "/forgot"), kwargs={"address": address.upper()})
        second.start()
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        eventually(lambda: observer.value(waiting) == 1, "the wait of the second request")
        first.execute("commit")
        second.join(DEADLINE)
    assert observer.value("select count(*) from mail where address = $1", address) == 1
    observer.execute("delete from mail")
    first.close()
    observer.close()


def test_frequent_requests_for_a_link_are_throttled(town: Town, mailing: RunningServer) -> None:
    statuses = [ask(mailing, "/forgot", address="often@example.com").status_code for _ in range(12)]
    assert statuses[0] == 200 and statuses[-1] == 429


def test_links_to_an_address_are_limited_over_all_networks(mailing: RunningServer) -> None:
    """Many networks together cannot fill a mailbox."""
    spellings = ("bombed@example.com", "Bombed@Example.com")
    statuses = [
        fetch(
            "POST", f"{mailing.url}/console/forgot", data={"address": spellings[number % 2]},
            headers={"Origin": mailing.url, "X-Forwarded-For": f"2001:db8:{number:x}::1"},
        ).status_code
        for number in range(8)
    ]  # fmt: skip
    assert statuses == [200] * 5 + [429] * 3


def test_a_temporary_failure_is_retried_and_a_permanent_one_is_not(
    owner: Person, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    later, never = address(owner, "later"), address(owner, "never")
    inbox.answers = ["451 4.3.0 come back later"]
    with http_client(base_url=mailing.url + "/v3", headers=owner.headers) as client:
        client.put("/managers", json={"emailAddress": later, "role": "Viewer"})
        waiting = "select last_error from mail where address = $1"
        eventually(lambda: "451" in (sql.value(waiting, later) or ""), "the first try")
        sql.execute("update mail set due_at = now() where address = $1", later)
        eventually(lambda: inbox.to(later), "the second")
        inbox.answers = ["550 5.1.1 nobody here"]
        client.put("/managers", json={"emailAddress": never, "role": "Viewer"})
        eventually(lambda: sql.value("select count(*) from mail where address = $1", never) == 0, "the end of it")
    assert not inbox.answers and not inbox.to(never)


def test_a_recipient_that_is_rejected_temporarily_gets_its_mail_later(
    owner: Person, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    """As by a server with greylisting (RFC 6647)."""
    later, never = address(owner, "greylisted"), address(owner, "unknown")
    inbox.recipient_answers = ["450 4.7.1 greylisted, try again"]
    with http_client(base_url=mailing.url + "/v3", headers=owner.headers) as client:
        client.put("/managers", json={"emailAddress": later, "role": "Viewer"})
        waiting = "select last_error from mail where address = $1"
        eventually(lambda: "greylisted" in (sql.value(waiting, later) or ""), "the first try")
        sql.execute("update mail set due_at = now() where address = $1", later)
        eventually(lambda: inbox.to(later), "the second")
        inbox.recipient_answers = ["550 5.1.1 no such mailbox"]
        client.put("/managers", json={"emailAddress": never, "role": "Viewer"})
        eventually(lambda: sql.value("select count(*) from mail where address = $1", never) == 0, "the end of it")
    assert not inbox.recipient_answers and not inbox.to(never)


@contextmanager
def mailing_alone(database_server: str, settings: Settings, inbox: Inbox, **options: Any) -> Iterator[Town]:
    """A server with a database and an SMTP server of its own."""
    with (
        smtp(inbox, **options) as port,
        migrated_database(database_server) as dsn,
        RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running,
        closing(Sql(dsn)) as sql,
    ):
        yield Town(sql, running)


RESTARTING = "background task exited, restarting"


def logged(logs: Sequence[MutableMapping[str, Any]], event: str) -> list[MutableMapping[str, Any]]:
    return [line for line in logs if line["event"] == event]


def test_an_address_beyond_ascii_gets_its_mail(database_server: str, settings: Settings) -> None:
    """By SMTPUTF8 (RFC 6531). The domain is in A-labels, which every server knows."""
    inbox = Inbox()
    with mailing_alone(database_server, settings, inbox, enable_SMTPUTF8=True) as town:
        owner = town.person("writer")
        made = owner.put("/managers", {"emailAddress": "Jürgen@Bücher.example", "role": "Viewer"})
        assert made.status_code == 201
        (mail,) = eventually(lambda: inbox.taken, "the mail")
        assert inbox.recipients == ["Jürgen@xn--bcher-kva.example"]
        assert "Keyrack" in mail["Subject"] and code_of(made.json()) != link_in(inbox.text(mail))
        owner.client.close()


def test_an_undeliverable_mail_does_not_block_others(database_server: str, settings: Settings) -> None:
    """Its server does not support SMTPUTF8. The next mail is sent at once."""
    inbox = Inbox()
    with (
        captured_events("mail delivery rejected", RESTARTING) as logs,
        mailing_alone(database_server, settings, inbox, enable_SMTPUTF8=False) as town,
    ):
        owner = town.person("writer")
        for address in ("ÄÖ@b.example", "kim@b.example"):
            assert owner.put("/managers", {"emailAddress": address, "role": "Viewer"}).status_code == 201
        eventually(lambda: inbox.to("kim@b.example"), "the other mail")
        eventually(lambda: owner.sql.value("select count(*) from mail") == 0, "the end of both")
        owner.client.close()
    (line,) = logged(logs, "mail delivery rejected")
    assert "SMTPUTF8" in line["error"] and not logged(logs, RESTARTING)


def test_an_invalid_mail_does_not_block_others(database_server: str, settings: Settings) -> None:
    """Its address is a user name without a domain, or from an older release."""
    inbox = Inbox()
    with (
        captured_events("mail delivery abandoned", RESTARTING) as logs,
        mailing_alone(database_server, settings, inbox) as town,
    ):
        owner, names = town.person("writer"), ("demo", "a b@☃.example", "<@b.example")
        for name in names:
            owner.sql.execute("insert into manager (username) values ($1)", name)
            owner.sql.execute("insert into mail (kind, address) values ('password', $1)", name)
        owner.put("/managers", {"emailAddress": "kim@b.example", "role": "Viewer"})
        eventually(lambda: inbox.to("kim@b.example"), "the other mail")
        eventually(lambda: owner.sql.value("select count(*) from mail") == 0, "the end of all")
        owner.client.close()
    assert len(logged(logs, "mail delivery abandoned")) == len(names)
    assert not logged(logs, RESTARTING)
    assert len(inbox.taken) == 1


def test_a_mail_of_a_stranger_does_not_delay_a_reset(
    town: Town, mailing: RunningServer, inbox: Inbox, sql: Sql
) -> None:
    number = next(NUMBERS)
    stored = f"mike{number}@mail.example"
    renamed(town, stored)
    typed = stored.replace("i", "\u0130", 1)
    sql.execute("insert into mail (kind, address, due_at) values ('password', $1, now() + interval '1 day')", typed)
    assert ask(mailing, "/forgot", address=stored.upper()).status_code == 200
    eventually(lambda: inbox.to(stored), "the mail")
    sql.execute("delete from mail where address = $1", typed)


def test_a_mail_that_is_too_old_is_dropped(owner: Person, mailing: RunningServer, inbox: Inbox, sql: Sql) -> None:
    kim = address(owner, "old")
    sql.execute(
        "insert into mail (kind, address, created_at) values ('password', $1, now() - interval '25 hours')", kim
    )
    eventually(lambda: sql.value("select count(*) from mail where address = $1", kim) == 0, "the end of it")
    assert not inbox.to(kim)


def test_a_mail_is_sent_when_the_server_is_back(database_server: str, settings: Settings) -> None:
    """In a database of its own: no other worker sends the mail."""
    port, inbox = free_port(), Inbox()
    with (
        migrated_database(database_server) as dsn,
        RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running,
        closing(Sql(dsn)) as sql,
    ):
        owner = Town(sql, running).person("patient")
        kim = address(owner, "patient")
        assert owner.put("/managers", {"emailAddress": kim, "role": "Viewer"}).status_code == 201
        eventually(lambda: sql.value("select last_error from mail where address = $1", kim), "the try in vain")
        with smtp(inbox, port):
            sql.execute("update mail set due_at = now() where address = $1", kim)
            eventually(lambda: inbox.to(kim), "the mail")
        owner.client.close()


def authenticated(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
    is_right = (data.login, data.password) == (USER.encode(), SECRET.encode())
    return AuthResult(success=is_right, handled=is_right)  # what is not handled is refused with 535, at once


def test_mail_is_sent_encrypted_and_authenticated(dsn: str, tmp_path: Path) -> None:
    """Providers require it. Nothing is sent unencrypted if encryption is set, or to an unknown server."""
    inbox, files = Inbox(), certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    options = {"tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": authenticated}
    operator, arguments = Operator(dsn), ("mail", "test", "kim@example.com")
    with smtp(inbox, **options) as port:
        env = {
            "KEYRACK_MAIL_HOST": "localhost", "KEYRACK_MAIL_PORT": str(port), "KEYRACK_MAIL_USER": USER,
            "KEYRACK_MAIL_PASSWORD": SECRET, "KEYRACK_MAIL_FROM": "k@example.com",
        }  # fmt: skip
        trusting = env | {"SSL_CERT_FILE": str(files.certificate)}
        sent = operator.run(*arguments, env=trusting)
        assert sent.returncode == 0, sent.stderr
        assert len(inbox.taken) == 1
        for wrong in (trusting | {"KEYRACK_MAIL_PASSWORD": "wrong"}, env):
            refused = operator.run(*arguments, env=wrong)
            assert refused.returncode == 1 and "did not accept the mail" in refused.stderr
            assert "Timed out" not in refused.stderr
    with smtp(inbox) as port:
        refused = operator.run(*arguments, env=trusting | {"KEYRACK_MAIL_PORT": str(port)})
        assert refused.returncode == 1 and "did not accept the mail" in refused.stderr
    assert len(inbox.taken) == 1


def test_the_page_names_existing_settings() -> None:
    """The block mail of docs/managers.md."""
    lines = block("docs/managers.md", "mail").lines
    assert {line.partition("=")[0].removesuffix("_FILE") for line in lines} <= {
        f"KEYRACK_{name}".upper() for name in Settings.model_fields
    }


def test_mails_about_new_phones_are_limited(inbox: Inbox, dsn: str, settings: Settings, sql: Sql) -> None:
    """An SDK key can register phones for all users, so the mail queue must stay free for others."""
    limits = {"phone_mails_per_day_per_user": 2, "phone_mails_per_hour_per_customer": 3}
    with (
        smtp(inbox) as port,
        RunningServer(settings.model_copy(update=mail_at(port, **limits)), dsn) as running,
    ):
        at = Town(sql, running).person("the owner of many phones")
        addresses = ["first.phones@example.org", "second.phones@example.org"]
        for user in [at.user(address) for address in addresses]:
            for _ in range(3):
                driver(at, user)
        eventually(lambda: sql.value("select count(*) from mail") == 0, "the mails")
        assert [len(inbox.to(address)) for address in addresses] == [2, 1]
        at.client.close()


def test_a_user_gets_a_mail_about_a_new_phone(owner: Person, mailing: RunningServer, inbox: Inbox, sql: Sql) -> None:
    """Once for each new phone, at an address, without the phone's name."""
    at = replace(owner, client=http_client(base_url=mailing.url + "/v3"))
    kim = driver(at, at.user("kim.mail@example.org"))
    kim.register("Visit evil.example")
    waiting = "select count(*) from mail"
    eventually(lambda: sql.value(waiting) == 0, "the mails")
    (mail,) = inbox.to("kim.mail@example.org")
    assert str(make_header(decode_header(mail["Subject"]))).startswith("New phone for your car keys:")
    assert "A new phone was registered for you" in inbox.text(mail)
    assert "evil.example" not in inbox.text(mail)
    other = driver(at, at.user("left.mail@example.org"))
    eventually(lambda: sql.value(waiting) == 0, "the mail")
    sql.execute("delete from customer_user where customer_id = $1 and user_id = $2", at.customer, other.user)
    put = "insert into mail (kind, address, invited_to, user_id, notice) values ('invitation', '', $1, $2, 'phone')"
    sql.execute(put, at.customer, other.user)
    eventually(lambda: sql.value(waiting) == 0, "the end of a mail to nobody")
    assert len(inbox.to("left.mail@example.org")) == 1
    at.client.close()
