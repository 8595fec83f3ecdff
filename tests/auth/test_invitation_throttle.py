"""The limits on invitations: per customer, per manager and per address.

Replaced and withdrawn invitations count as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.support.people import Person, Town, http_client
from tests.support.servers import NUMBERS, RunningServer, Sql

ACTS = """
insert into manager_customer (customer_id, manager_id) select $1, manager_id from manager where username = $2
"""
OWNS = """
insert into manager_role (customer_id, manager_id, role)
select $1, manager_id, 'Owner' from manager where username = $2
"""
OF_ADDRESS, OF_MANAGER, OF_CUSTOMER = 2, 4, 6


@pytest.fixture(scope="module")
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    few = {
        "invitations_per_hour_per_customer": 1,
        "invitation_burst_per_customer": OF_CUSTOMER,
        "invitations_per_hour_per_manager": 1,
        "invitation_burst_per_manager": OF_MANAGER,
        "invitations_per_day_per_address": 1,
        "invitation_burst_per_address": OF_ADDRESS,
    }
    with RunningServer(settings.model_copy(update=few), dsn, worker=False) as running:
        yield running


@pytest.fixture
def owner(town: Town) -> Iterator[Person]:
    person = town.person("an inviter")
    yield person
    person.client.close()


def invite(server: RunningServer, owner: Person, address: str, **headers: str) -> httpx.Response:
    body = {"emailAddress": address, "role": "Viewer"}
    with http_client(base_url=server.url + "/v3") as client:
        return client.put("/managers", json=body, headers=owner.headers | headers)


def withdraw(server: RunningServer, owner: Person, answer: httpx.Response) -> None:
    with http_client(base_url=server.url + "/v3") as client:
        removed = client.delete(f"/invitations/{answer.json()['id']}", headers=owner.headers)
    assert removed.status_code == 204


def fresh() -> str:
    return f"stranger-{next(NUMBERS)}@elsewhere.example"


def refused(answer: httpx.Response, most: int) -> None:
    assert answer.status_code == 429, answer.text
    seconds = int(answer.headers["retry-after"])
    assert 0 < seconds <= most
    assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}


def test_invitations_of_an_address_are_limited(owner: Person, town: Town, strict: RunningServer) -> None:
    stranger = fresh()
    first = invite(strict, owner, stranger)
    assert first.status_code == 201
    withdraw(strict, owner, first)
    assert invite(strict, owner, stranger.upper()).status_code == 201
    refused(invite(strict, owner, stranger), 86_400)
    refused(invite(strict, owner, stranger.title()), 86_400)
    assert invite(strict, owner, fresh()).status_code == 201, "another address"
    neighbour = town.person("a neighbour")
    assert invite(strict, neighbour, stranger).status_code == 201, "another customer, which learns nothing of it"


def test_invitations_by_a_manager_are_limited(owner: Person, strict: RunningServer) -> None:
    """Addresses cannot be enumerated by inviting and withdrawing."""
    for _ in range(OF_MANAGER):
        answer = invite(strict, owner, fresh())
        assert answer.status_code == 201
        withdraw(strict, owner, answer)
    refused(invite(strict, owner, fresh()), 3_600)


def test_invitations_of_a_customer_are_limited(owner: Person, town: Town, strict: RunningServer, sql: Sql) -> None:
    others = [town.person("a colleague") for _ in range(2)]
    for person in others:
        sql.execute(ACTS, owner.customer, person.username)
        sql.execute(OWNS, owner.customer, person.username)
        person.headers["Customer-ID"] = str(owner.customer)
    for number in range(OF_CUSTOMER):
        assert invite(strict, others[number % 2], fresh()).status_code == 201
    refused(invite(strict, owner, fresh()), 3_600)
    assert len(owner.get("/invitations").json()) == OF_CUSTOMER


def test_an_idempotency_key_bypasses_no_limit(owner: Person, strict: RunningServer) -> None:
    stranger = fresh()
    key = {"Idempotency-Key": f"key-{next(NUMBERS)}"}
    answers = [invite(strict, owner, stranger, **key) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [201] * 5 and len({answer.text for answer in answers}) == 1
    others = [invite(strict, owner, stranger, **{"Idempotency-Key": f"key-{next(NUMBERS)}"}) for _ in range(2)]
    assert [answer.status_code for answer in others] == [201, 429]


def test_the_form_says_when_to_try_again(owner: Person, strict: RunningServer) -> None:
    stranger = fresh()
    for _ in range(OF_ADDRESS):
        invite(strict, owner, stranger)
    with http_client(base_url=strict.url, headers={"Origin": strict.url}) as browser:
        browser.post("/console/sign-in", data={"username": owner.username, "password": owner.password})
        form = {"address": stranger, "role": "Viewer", "part": "whole"}
        answer = browser.post(f"/console/{owner.customer}/settings/managers/invite", data=form)
    assert answer.status_code == 429 and "Rate limit exceeded." in answer.text and stranger in answer.text
