"""Single sign-on of drivers in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.auth.sso.conftest import DOMAIN, NAME
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_driver_sign_in import SWITCH
from tests.auth.sso.test_login_flow import fresh
from tests.support.browser import launched, needed
from tests.support.drivers import COOKIE
from tests.support.people import Town
from tests.support.servers import DEADLINE, RunningServer, Sql

pytestmark = needed


@pytest.mark.parametrize("is_known", [True, False])
def test_a_driver_signs_in_by_a_provider(federated: RunningServer, oidc: Oidc, sql: Sql, is_known: bool) -> None:
    """The provider is another site; the cookies are `Strict`."""
    person, email = Town(sql, federated).person("fleet"), f"{fresh()}@{DOMAIN}".lower()
    sql.execute(SWITCH, NAME, person.customer)
    if is_known:
        person.user(email, type="Normal")
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    wrong: list[str] = []
    with launched() as browser:
        context = browser.new_context(base_url=federated.url, locale="en-GB")
        context.set_default_timeout(DEADLINE * 1000)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
        page.goto("/drive/")
        page.get_by_role("button", name=f"Sign in with {NAME.capitalize()}").click()
        if not is_known:
            expect(page.get_by_role("main")).to_have_attribute("data-page", "provider")
            page.get_by_role("link", name="Sign in").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        else:
            expect(page.get_by_role("heading", level=1)).to_contain_text("No car for you now")
            assert page.url.partition("#")[0] == f"{federated.url}/drive/"
            assert "code=" not in page.url
            page.goto("/drive/#security")
            expect(page.get_by_role("heading", name="Where you are signed in")).to_be_visible()
            expect(page.get_by_role("button", name="Delete my account")).to_have_count(0)
        cookies: list[Any] = list(context.cookies(federated.url))
        assert {cookie["sameSite"] for cookie in cookies} == {"Strict"}
        assert any(cookie["name"] == COOKIE for cookie in cookies) is is_known
        context.close()
    assert wrong == []
    person.client.close()
