"""The mail by which a manager invites a user to the app. No manager sees its link, so it proves the mailbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyrack.core.settings import Settings
from tests.auth.mail.test_mail import Inbox, mail_at, smtp
from tests.support.drivers import driver_address
from tests.support.people import Person, http_client
from tests.support.servers import RunningServer, eventually


@pytest.fixture(scope="module")
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture(scope="module")
def mailing(inbox: Inbox, dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that sends mail."""
    with smtp(inbox) as port, RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running:
        yield running


def test_an_invitation_is_mailed_in_the_language_of_the_manager(
    alice: Person, mailing: RunningServer, inbox: Inbox
) -> None:
    address = driver_address()
    user = alice.user(address, type="Normal")
    alice.sql.execute("update manager set language = 'de' where username = $1", alice.username)
    with http_client(base_url=mailing.url + "/v3", headers=alice.headers) as client:
        made = client.post(f"/users/{user}/app-invitation", json={"mail": True})
    assert (made.status_code, made.json()) == (201, {"link": None, "expires": None}), made.text
    (mail,) = eventually(lambda: inbox.to(address), "the mail")
    assert "/drive/#link=" in inbox.text(mail)
    assert mail["Subject"].startswith("Ihre ")
    assert alice.get(f"/users/{user}/app-access").json()["isInvited"] is True


def test_mails_to_one_user_are_limited(alice: Person, mailing: RunningServer) -> None:
    user = alice.user(driver_address(), type="Normal")
    with http_client(base_url=mailing.url + "/v3", headers=alice.headers) as client:
        path, body = f"/users/{user}/app-invitation", {"mail": True}
        statuses = [client.post(path, json=body).status_code for _ in range(10)]  # the burst is 5
    assert statuses[0] == 201 and statuses[-1] == 429
