"""Managers invite users to the app, see their access, and withdraw it."""

from __future__ import annotations

from typing import Any

import pytest

from keyrack.drivers.app_access import NOT_NORMAL
from tests.auth.group_scope import limited, put
from tests.support.drivers import signed_in_driver
from tests.support.people import Person, Town, done, refused
from tests.support.servers import eventually

NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."
ROWS = [("POST", "app-invitation", {}), ("GET", "app-access", None), ("DELETE", "app-access", None)]


def state(person: Person, user: int) -> dict[str, Any]:
    answer = person.get(f"/users/{user}/app-access")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_invited_user_gets_a_link_that_is_shown_once(alice: Person) -> None:
    user = alice.user(type="Normal")
    nothing = {
        "canBeInvited": True, "hasAccess": False, "isInvited": False, "invitationExpires": None, "lastSeen": None,
        "isWithdrawn": False,
    }  # fmt: skip
    assert state(alice, user) == nothing
    answer = alice.post(f"/users/{user}/app-invitation", {})
    assert answer.status_code == 201, answer.text
    assert "/drive/#link=" in answer.json()["link"]
    assert answer.headers["cache-control"] == "no-store"
    assert state(alice, user) == nothing | {"isInvited": True, "invitationExpires": answer.json()["expires"]}
    again = alice.post(f"/users/{user}/app-invitation", {"mail": False}).json()
    assert again["link"] != answer.json()["link"]


def test_an_anonymous_user_has_no_app(alice: Person) -> None:
    user = alice.user()
    assert state(alice, user)["canBeInvited"] is False
    refused(alice.post(f"/users/{user}/app-invitation", {}), 409, NOT_NORMAL)


def test_a_withdrawn_access_ends_sessions_until_the_next_invitation(alice: Person) -> None:
    driver = signed_in_driver(alice)
    before = state(alice, driver.user)
    assert (before["hasAccess"], before["isWithdrawn"]) == (True, False)
    assert before["lastSeen"] is not None
    alice.post(f"/users/{driver.user}/app-invitation", {})
    done(alice.delete(f"/users/{driver.user}/app-access"))
    after = state(alice, driver.user)
    assert (after["hasAccess"], after["isWithdrawn"], after["isInvited"]) == (False, True, False)
    assert after["lastSeen"] is None
    assert driver.call("GET", "/cars").status_code == 401
    done(alice.delete(f"/users/{driver.user}/app-access"))
    alice.post(f"/users/{driver.user}/app-invitation", {})
    assert state(alice, driver.user)["isWithdrawn"] is False


def test_a_customer_sees_no_use_of_the_app_at_another(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    assert bob.put("/users/assignments/customers", {"emailAddress": driver.address}).status_code == 204
    seen = state(bob, driver.user)
    assert (seen["hasAccess"], seen["lastSeen"]) == (False, None)
    done(bob.delete(f"/users/{driver.user}/app-access"))
    assert driver.call("GET", "/cars").status_code == 200


def test_a_proven_account_has_access_to_each_customer_of_the_person(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    assert bob.put("/users/assignments/customers", {"emailAddress": driver.address}).status_code == 204
    assert state(bob, driver.user)["hasAccess"] is True
    done(bob.delete(f"/users/{driver.user}/app-access"))
    assert state(bob, driver.user)["hasAccess"] is False
    assert [one["id"] for one in driver.call("GET", "/session").json()["customers"]] == [alice.customer]


@pytest.mark.parametrize(("method", "path", "body"), ROWS)
def test_a_user_of_another_customer_is_not_found(bob: Person, alice: Person, method: str, path: str, body: Any) -> None:
    user = alice.user(type="Normal")
    refused(bob.call(method, f"/users/{user}/{path}", body), 404, NO_USER)
    assert state(alice, user)["isWithdrawn"] is False


@pytest.mark.parametrize(("method", "path", "body"), ROWS)
def test_a_group_limited_manager_reaches_users_of_the_groups(
    alice: Person, town: Town, method: str, path: str, body: Any
) -> None:
    inside, outside = alice.user(type="Normal"), alice.user(type="Normal")
    group = alice.group()
    put(alice, group, "userId", inside)
    manager = limited(town, alice, "limited", [group])
    eventually(lambda: manager.get(f"/users/{inside}").status_code == 200, "the user in the group")
    assert manager.call(method, f"/users/{inside}/{path}", body).is_success
    refused(manager.call(method, f"/users/{outside}/{path}", body), 404, NO_USER)


def test_invitations_need_the_permission_to_change_users(alice: Person, town: Town) -> None:
    user = alice.user(type="Normal")
    viewer = town.colleague(alice, "viewer", "Viewer")
    assert viewer.get(f"/users/{user}/app-access").status_code == 200
    assert viewer.post(f"/users/{user}/app-invitation", {}).status_code == 403
    assert viewer.delete(f"/users/{user}/app-access").status_code == 403
