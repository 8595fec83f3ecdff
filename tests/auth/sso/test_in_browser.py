"""Single sign-on in a real browser, under the policy of the pages."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.auth.sso.conftest import DOMAIN, NAME
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_login_flow import fresh
from tests.console import axe
from tests.support.browser import launched, needed
from tests.support.people import Town
from tests.support.servers import DEADLINE, RunningServer

pytestmark = needed


def test_sign_in_and_sign_out_by_a_provider(federated: RunningServer, oidc: Oidc, town: Town) -> None:
    """With a script and without. The provider is another site, so its answer has `Lax` cookies alone."""
    person, email = town.person("olga"), f"olga.{fresh()}@{DOMAIN}"
    person.rename(email)
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    wrong: list[str] = []
    with launched() as browser:
        for scripts in (True, False):
            context = browser.new_context(base_url=federated.url, java_script_enabled=scripts, locale="en-GB")
            context.set_default_timeout(DEADLINE * 1000)
            page = context.new_page()
            page.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
            page.goto(f"/console/{person.customer}/settings/accounts")
            page.get_by_role("button", name=f"Sign in with {NAME.capitalize()}").click()
            page.wait_for_url(f"**/console/{person.customer}/settings/accounts")
            expect(page.get_by_role("row", name=NAME.capitalize())).to_be_visible()
            cookies: list[Any] = list(context.cookies(federated.url))
            (bound,) = [cookie for cookie in cookies if cookie["name"] == "keyrack-sign-in"]
            assert (bound["httpOnly"], bound["sameSite"]) == (True, "Lax")
            page.get_by_role("button", name="Your menu").click()
            page.get_by_role("button", name="Sign out").click()
            page.get_by_role("button", name="Yes, sign me out").click()
            page.wait_for_url("**/console/sign-in?out")
            expect(page.get_by_role("status").first).to_contain_text("You are signed out.")
            page.goto(f"/console/{person.customer}")
            expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Keyrack")
            context.close()
    assert wrong == []


def test_the_first_proof_says_what_it_has_removed(federated: RunningServer, oidc: Oidc, town: Town) -> None:
    person, email = town.person("oscar"), f"oscar.{fresh()}@{DOMAIN}"
    person.rename(email, is_proven=False)
    oidc.says(fresh(), account={"email": email, "email_verified": True})
    with launched() as browser:
        page = browser.new_page(base_url=federated.url, locale="en-GB", viewport={"width": 320, "height": 640})
        page.set_default_timeout(DEADLINE * 1000)
        page.goto(f"/console/{person.customer}/settings/accounts")
        page.get_by_role("button", name=f"Sign in with {NAME.capitalize()}").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Your address is verified")
        assert axe.faults(page) == []
        page.get_by_role("link", name="Continue").click()
        page.wait_for_url(f"**/console/{person.customer}/settings/accounts")
        expect(page.get_by_role("row", name=NAME.capitalize())).to_be_visible()
