"""Managers by the API: invitations, roles and removals.

The last owner is never removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from keyrack.api.permissions import Role
from keyrack.auth.invitations import ALREADY, SIMILAR
from tests.support.people import Person, Town, http_client, refused, web
from tests.support.servers import Sql, eventually

PASSWORD = "a pass phrase of mine"


@pytest.fixture
def owner(town: Town) -> Iterator[Person]:
    person = town.person("an owner")
    yield person
    person.client.close()


def invited(owner: Person, address: str, role: str = "Dispatcher") -> dict[str, Any]:
    answer = owner.put("/managers", {"emailAddress": address, "role": role})
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def code_of(made: dict[str, Any]) -> str:
    return made["link"].partition("#")[2]


def posted(owner: Person, path: str, client: httpx.Client | None = None, **form: str) -> httpx.Response:
    """Submit a form of a public page."""
    root = str(owner.client.base_url.join("/")).rstrip("/")
    with client or http_client() as browser:
        return browser.post(f"{root}/console{path}", data=form, headers={"Origin": root})


def address(owner: Person, name: str = "kim") -> str:
    return f"{name}.{owner.customer}@example.com"


def token(owner: Person, username: str, password: str = PASSWORD) -> httpx.Response:
    form = {"grant_type": "password", "username": username, "password": password}
    return owner.client.post("/oauth2/token", data=form, headers={"vendor-API-Key": owner.api_key})


def test_a_new_person_accepts_once(owner: Person) -> None:
    kim = address(owner)
    made = invited(owner, kim)
    assert made["mailed"] is False and "/console/invitation#" in made["link"]
    (listed,) = owner.get("/invitations").json()
    assert (listed["emailAddress"], listed["role"], listed["invitedBy"]) == (kim, "Dispatcher", owner.username)
    assert code_of(made) not in str(listed)
    shown = posted(owner, "/invitation", code=code_of(made))
    assert shown.status_code == 200 and kim in shown.text and "Dispatcher" in shown.text
    short = posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password="short")
    assert short.status_code == 422
    done = posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD)
    assert done.status_code == 303 and done.headers["location"].endswith(f"/console/{owner.customer}")
    again = posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password="another pass phrase")
    assert again.status_code == 404 and "no longer valid" in again.text
    assert token(owner, kim).status_code == 200
    assert token(owner, kim, "another pass phrase").status_code == 401
    assert owner.get("/invitations").json() == []
    found = next(row for row in owner.get("/managers").json() if row["username"] == kim)
    assert (found["role"], found["enabled"], found["isLimited"]) == ("Dispatcher", True, False)


def test_a_role_by_an_invitation_is_given_by_the_inviter(owner: Person) -> None:
    """No manager grants a role to itself, and the accepting account makes no other change for the inviter."""
    kim = address(owner, "granted")
    made = invited(owner, kim)
    assert posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD).status_code == 303
    ids = {row["username"]: row["id"] for row in owner.get("/managers").json()}
    inviter = {"type": "manager", "id": str(ids[owner.username]), "name": owner.username}
    for kind in ("manager.granted", "role.granted"):
        change = newest_change(owner, kind, ids[kim])
        assert (change["actor"]["type"], change["actor"]["name"]) == ("manager", kim)
        assert change["onBehalfOf"] == inviter
        assert change["address"] == "127.0.0.1" and change["requestId"]
    over = newest_change(owner, "invitation.deleted", made["id"])
    assert (over["actor"]["name"], over["onBehalfOf"]) == (kim, None)


def newest_change(person: Person, kind: str, id: int) -> dict[str, Any]:
    query = f"/changes?$filter=kind eq '{kind}' and resourceId eq '{id}'&$orderby=id desc&$top=1"
    return eventually(lambda: person.get(query).json(), kind)[0]


def test_an_invitation_of_a_similar_address_is_another_one(owner: Person, town: Town) -> None:
    """Another spelling of the same address replaces an invitation. A letter that is only folded does not."""
    kim = address(owner, "biss")
    first = invited(owner, kim)
    invited(owner, kim.replace("example", "ｅｘａｍｐｌｅ"))
    second = invited(owner, kim.upper())
    assert [row["id"] for row in owner.get("/invitations").json()] == [second["id"]]
    similar = owner.put("/managers", {"emailAddress": kim.replace("i", "\u0130"), "role": "Viewer"})
    refused(similar, 409, SIMILAR)
    wide = invited(owner, kim.replace("biss", "ｂiss"))
    assert {row["id"] for row in owner.get("/invitations").json()} == {second["id"], wide["id"]}
    assert posted(owner, "/invitation", code=code_of(first)).status_code == 404
    other = town.person("biss")
    owner.sql.execute("update manager set username = $2 where username = $1", other.username, kim)
    shown = posted(owner, "/invitation", code=code_of(wide))
    assert "An account of" not in shown.text, "the invitation is to somebody else"
    other.client.close()


def test_the_spellings_of_an_address_are_one_invitation(owner: Person) -> None:
    """An accepted one has the account, whatever its spelling."""
    composed, decomposed = (f"{text}{owner.customer}@bücher.example" for text in ("jürgen", "ju\u0308rgen"))
    invited(owner, composed)
    made = invited(owner, decomposed)
    assert [row["id"] for row in owner.get("/invitations").json()] == [made["id"]]
    accepted = posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD)
    assert accepted.status_code == 303
    for spelling in (composed, decomposed.replace("bücher", "xn--bcher-kva"), composed.upper().replace("Ü", "ü")):
        assert token(owner, spelling).status_code == 200
        refused(owner.put("/managers", {"emailAddress": spelling, "role": "Viewer"}), 409, ALREADY)
    assert token(owner, composed.replace("ü", "Ü", 1)).status_code == 401


def test_two_at_once_accept_once(owner: Person, sql: Sql) -> None:
    kim = address(owner)
    code = code_of(invited(owner, kim))
    with ThreadPoolExecutor(4) as threads:
        tried = [
            threads.submit(posted, owner, "/invitation/accept", code=code, new="yes", new_password=f"pass phrase {n}")
            for n in range(4)
        ]
        statuses = sorted(one.result().status_code for one in tried)
    assert statuses[0] == 303 and set(statuses[1:]) <= {404, 409}, statuses
    assert sql.value("select count(*) from manager where username = $1", kim) == 1


def test_an_existing_account_accepts_when_it_is_signed_in(owner: Person, town: Town) -> None:
    other = town.person("somebody")
    mailbox = address(owner, "somebody")
    other.rename(mailbox)
    code = code_of(invited(owner, other.username, "Auditor"))
    asked = posted(owner, "/invitation", code=code)
    assert "sign in with it, then open the link again" in asked.text
    refused = posted(owner, "/invitation/accept", code=code, new="yes", new_password=PASSWORD)
    assert refused.status_code == 409
    assert token(owner, other.username).status_code == 401, "nobody sets somebody else's password"
    root = str(owner.client.base_url.join("/")).rstrip("/")
    with other.browser() as browser:
        accepted = browser.post(f"{root}/console/invitation/accept", data={"code": code}, headers={"Origin": root})
    assert accepted.status_code == 303
    mine = {"Customer-ID": str(owner.customer)}
    eventually(lambda: other.get("/changes", headers=mine).status_code == 200, "the role")
    assert other.get("/cars", headers=mine).status_code == 200
    assert other.put("/cars", {"name": "X"}, headers=mine).status_code == 403
    again = owner.put("/managers", {"emailAddress": other.username, "role": "Owner"})
    assert again.status_code == 409


def test_a_new_invitation_replaces_the_old_one(owner: Person) -> None:
    kim = address(owner)
    first, second = invited(owner, kim), invited(owner, kim.upper(), "Viewer")
    assert posted(owner, "/invitation", code=code_of(first)).status_code == 404
    assert "Viewer" in posted(owner, "/invitation", code=code_of(second)).text
    assert len(owner.get("/invitations").json()) == 1
    assert owner.delete(f"/invitations/{second['id']}").status_code == 204
    assert posted(owner, "/invitation", code=code_of(second)).status_code == 404
    assert owner.delete(f"/invitations/{second['id']}").status_code == 404


def test_an_expired_invitation_is_refused(owner: Person, sql: Sql) -> None:
    made = invited(owner, address(owner))
    sql.execute("update invitation set expires_at = now() where customer_id = $1", owner.customer)
    assert posted(owner, "/invitation", code=code_of(made)).status_code == 404
    assert owner.get("/invitations").json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"emailAddress": "kim@example.com"},
        {"emailAddress": "kim@example.com", "role": "Boss"},
        {"emailAddress": "kim@example.com", "role": "owner"},
        {"emailAddress": "kim", "role": "Viewer"},
        {"emailAddress": "kim@example.com\nBcc: x@example.com", "role": "Viewer"},
        {"role": "Viewer"},
        {"emailAddress": "kim@example.com", "role": "Viewer", "groups": []},
    ],
)
def test_invalid_invitations_are_refused(owner: Person, body: dict[str, Any]) -> None:
    assert owner.put("/managers", body).status_code == 400
    assert owner.get("/invitations").json() == []


def test_other_customers_and_roles_are_refused(owner: Person, bob: Person, town: Town) -> None:
    made = invited(owner, address(owner))
    number = owner.get("/managers").json()[0]["id"]
    step = [{"op": "replace", "path": "/role", "value": "Viewer"}]
    for answer in (
        bob.get(f"/managers/{number}"), bob.patch(f"/managers/{number}", step), bob.delete(f"/managers/{number}"),
        bob.delete(f"/invitations/{made['id']}"),
    ):  # fmt: skip
        assert answer.status_code == 404
    assert bob.get("/invitations").json() == []
    manager = town.person("no owner", Role.MANAGER)
    for answer in (
        manager.get("/managers"), manager.get("/invitations"), manager.put("/managers", {}),
        manager.patch("/managers/1", step), manager.delete("/managers/1"), manager.delete("/invitations/1"),
    ):  # fmt: skip
        assert answer.status_code == 403
    manager.client.close()


def ones(owner: Person) -> int:
    return next(row["id"] for row in owner.get("/managers").json() if row["username"] == owner.username)


def test_the_last_owner_stays(owner: Person, sql: Sql) -> None:
    me = f"/managers/{ones(owner)}"
    step = [{"op": "replace", "path": "/role", "value": "Manager"}]
    for answer in (owner.delete(me), owner.patch(me, step)):
        assert answer.status_code == 409 and "no owner left" in answer.text
    posted(
        owner,
        "/invitation/accept",
        code=code_of(invited(owner, address(owner), "Owner")),
        new="yes",
        new_password=PASSWORD,
    )
    sql.execute("update manager set is_disabled = true where username = $1", address(owner))
    assert owner.delete(me).status_code == 409, "one who may not sign in is none"
    sql.execute("update manager set is_disabled = false where username = $1", address(owner))
    assert owner.patch(me, step).status_code == 204
    eventually(lambda: owner.get("/managers").status_code == 403, "the loss of who may")


def test_two_owners_do_not_remove_each_other(owner: Person, town: Town, sql: Sql) -> None:
    """Both remove each other at the same time, again and again. One of them always stays."""
    for number in range(5):
        other = town.person(f"second {number} {owner.customer}")
        sql.execute(
            "with m as (insert into manager_customer (customer_id, manager_id) select $1, manager_id from manager"
            " where username = $2 returning *) insert into manager_role select customer_id, manager_id, 'Owner' from m",
            owner.customer, other.username,
        )  # fmt: skip
        mine = {"Customer-ID": str(owner.customer)}
        eventually(lambda other=other, mine=mine: other.get("/managers", headers=mine).status_code == 200, "the role")
        ids = {row["username"]: row["id"] for row in owner.get("/managers").json()}
        step = [{"op": "replace", "path": "/role", "value": "Viewer"}]
        with ThreadPoolExecutor(2) as threads:
            one = threads.submit(owner.patch, f"/managers/{ids[other.username]}", step)
            two = threads.submit(other.patch, f"/managers/{ids[owner.username]}", step, headers=mine)
            statuses = {one.result().status_code, two.result().status_code}
        owners = "select count(*) from manager_role where customer_id = $1 and role = 'Owner'"
        assert sql.value(owners, owner.customer) == 1, statuses
        sql.execute(
            "update manager_role set role = 'Owner' from manager m where m.manager_id = manager_role.manager_id"
            " and customer_id = $1 and username = $2", owner.customer, owner.username,
        )  # fmt: skip
        sql.execute(
            "delete from manager_customer using manager m where m.manager_id = manager_customer.manager_id"
            " and customer_id = $1 and username = $2", owner.customer, other.username,
        )  # fmt: skip
        eventually(lambda: owner.get("/managers").status_code == 200, "the role of the first")
        other.client.close()


def test_the_change_log_records_invitations(owner: Person) -> None:
    made = invited(owner, address(owner))
    posted(owner, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD)
    query = "/changes?$filter=kind eq 'invitation.deleted'"
    eventually(lambda: owner.get(query).json(), "the end of the invitation")
    told = owner.get("/changes?$top=1000").json()
    over = next(row for row in told if row["kind"] == "invitation.deleted")
    assert over["actor"]["name"] == address(owner) and over["before"]["link"] == "***"
    assert code_of(made) not in str(told)


def test_forgotten_without_mail_leads_to_the_operator(owner: Person) -> None:
    root = str(owner.client.base_url.join("/")).rstrip("/")
    assert "sends no mail" in web().get(f"{root}/console/forgot").text
    assert "sends no mail" in posted(owner, "/forgot", address=owner.username).text
