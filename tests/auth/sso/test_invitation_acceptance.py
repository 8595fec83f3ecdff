"""Invitations that a provider's account accepts: once, and only the invited one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.auth.sso.conftest import Visitor
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_login_flow import address, fresh, identities, is_refused, named
from tests.auth.test_invitations import code_of
from tests.support.people import Person, Town
from tests.support.servers import Sql

ACCEPT = "/console/invitation/provider"


@pytest.fixture(scope="module")
def owner(town: Town) -> Person:
    return town.person("owner of invitations")


def invited(owner: Person, email: str, role: str = "Dispatcher") -> str:
    """The code of an invitation's link."""
    return code_of(owner.put("/managers", {"emailAddress": email, "role": role}).json())


def row(owner: Person, email: str) -> list[str]:
    """The roles of the manager with the address."""
    return [one["role"] for one in owner.get("/managers").json() if one["username"].lower() == email.lower()]


def test_a_new_person_accepts_without_a_password(visitor: Visitor, oidc: Oidc, owner: Person, sql: Sql) -> None:
    email, subject = address("new", "elsewhere.example"), fresh()
    code = invited(owner, email)
    page = visitor.go("/console/invitation", {"code": code})
    assert "Accept with" in page.text
    oidc.says(subject)
    came = visitor.come(path=ACCEPT, code=code)
    assert (came.status_code, came.headers["location"]) == (303, f"/console/{owner.customer}")
    assert visitor.session is not None and row(owner, email) == ["Dispatcher"]
    assert sql.value("select password_hash is null from manager where username = $1", email)
    assert Visitor(visitor.url).come().status_code == 303  # the account signs in from now on
    oidc.says(fresh())
    is_refused(Visitor(visitor.url), "invitation", path=ACCEPT, code=code)


def test_two_at_once_accept_once(visitor: Visitor, oidc: Oidc, owner: Person) -> None:
    email = address("twice", "elsewhere.example")
    code = invited(owner, email)
    oidc.says(fresh())
    visitors = [Visitor(visitor.url) for _ in range(3)]
    places = [one.answered(one.begin(path=ACCEPT, code=code)) for one in visitors]
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda pair: pair[0].go(pair[1]).status_code, zip(visitors, places, strict=True)))
    assert sorted(answers) == [303, 403, 403] and row(owner, email) == ["Dispatcher"]


def test_a_link_gives_no_access_to_the_manager_with_the_address(
    visitor: Visitor, oidc: Oidc, owner: Person, town: Town, sql: Sql
) -> None:
    email = address("taken")
    person = named(town, email)
    code = invited(owner, email, "Manager")
    for account in ({}, {"email": address(), "email_verified": True}, {"email": email, "email_verified": False}):
        oidc.says(fresh(), account=account)
        is_refused(Visitor(visitor.url), "unknown", path=ACCEPT, code=code)
    assert identities(sql, person) == 0 and row(owner, email) == []
    oidc.says(fresh(), account={"email": email, "email_verified": True})  # the provider has verified it
    assert visitor.come(path=ACCEPT, code=code).status_code == 303
    assert identities(sql, person) == 1 and row(owner, email) == ["Manager"]


def test_another_manager_cannot_accept_the_invitation(
    visitor: Visitor, oidc: Oidc, owner: Person, town: Town, sql: Sql
) -> None:
    email, subject = address("another"), fresh()
    named(town, email)
    oidc.says(subject, account={"email": email, "email_verified": True})
    assert visitor.come().status_code == 303
    code = invited(owner, address("meant", "elsewhere.example"))
    is_refused(Visitor(visitor.url), "invitation", path=ACCEPT, code=code)
    assert row(owner, email) == []
    is_refused(Visitor(visitor.url), "invitation", path=ACCEPT, code="x" * 43)


def test_an_invitation_withdrawn_meanwhile_is_refused(visitor: Visitor, oidc: Oidc, owner: Person) -> None:
    email = address("late", "elsewhere.example")
    code = invited(owner, email)
    oidc.says(fresh())
    place = visitor.answered(visitor.begin(path=ACCEPT, code=code))
    (invitation,) = [one["id"] for one in owner.get("/invitations").json() if one["emailAddress"] == email]
    assert owner.delete(f"/invitations/{invitation}").status_code == 204
    assert visitor.go(place).status_code == 403 and row(owner, email) == []
