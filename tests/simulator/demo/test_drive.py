"""The demo's app opens a car over the simulated radio."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support import browser
from tests.support.people import http_client
from tests.support.servers import DEADLINE, Process, eventually, reachable_directory

pytestmark = [pytest.mark.cluster, browser.needed]

RADIO_FAULT = "The connection was interrupted|Look at the car|The box is busy"  # the radio of the demo has faults


def sees(page: Page, title: str) -> None:
    page.get_by_role("heading", name=title, exact=True).wait_for()


def tap(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def choose(page: Page, box: str) -> None:
    """Choose the first of these boxes in the chooser."""
    page.get_by_role("dialog").get_by_role("button", name=re.compile(box)).first.click()


def sees_after_faults(page: Page, title: str) -> None:
    """Wait for a state. After a fault of the radio, try again."""
    while True:
        heading = page.get_by_role("heading", name=re.compile(f"^({title}|{RADIO_FAULT})$"))
        heading.wait_for()
        if heading.text_content() == title:
            return
        tap(page, "Try again")
        if page.get_by_role("dialog").count():
            choose(page, "the box of your car")


def test_a_newcomer_opens_a_car_of_the_demo() -> None:
    """The app names the wrong car, and a search without a box. The opening is an event of the driver."""
    with reachable_directory() as directory:
        process = Process("demo", "--port", "0", "--state", str(directory), "--json")
        assert process.popen.stdout is not None
        env: dict[str, str] = json.loads(process.popen.stdout.readline())
        with browser.launched() as chromium:
            context = chromium.new_context(base_url=env["KEYRACK_URL"].removesuffix("/v3"), locale="en-GB")
            context.set_default_timeout(DEADLINE * 1_000)
            user = open_a_car(context.new_page(), env)
        events = eventually(lambda: events_of(env, user), "the event of the opening")
        assert [event["type"] for event in events] == ["CarOpened"] * len(events)
        assert process.stop() == 0


def open_a_car(page: Page, env: dict[str, str]) -> int:
    """Open the driver's car. Returns the user."""
    page.goto("/drive/")
    page.get_by_label("E-mail address").fill(env["KEYRACK_DRIVER_EMAIL"])
    page.get_by_label("Password", exact=True).fill(env["KEYRACK_DRIVER_PASSWORD"])
    tap(page, "Sign in")
    sees(page, "Pool car 5")
    cars = page.request.get("/drive/api/cars").json()
    assert [(car["name"], car["state"]) for car in cars] == [("Pool car 5", "now"), ("Pool car 6", "next")]
    eventually(lambda: len(page.request.get("/drive/api/simulated-radio").json()["names"]) == 3, "boxes nearby")
    page.reload()
    sees(page, "Ready")
    tap(page, "Open")
    tap(page, "Walk away: hear no box")
    sees(page, "No box heard")
    tap(page, "Search again")
    choose(page, "the box of another car")
    sees_after_faults(page, "This is the box of another car")
    tap(page, "Search again")
    choose(page, "the box of your car")
    sees_after_faults(page, "Open")
    return page.request.get("/drive/api/session").json()["user"]["id"]


def events_of(env: dict[str, str], user: int) -> list[dict[str, Any]]:
    """The events of a user by the API."""
    with http_client(base_url=env["KEYRACK_URL"], headers={"vendor-API-Key": env["KEYRACK_API_KEY"]}) as client:
        secret = (env["KEYRACK_CLIENT_ID"], env["KEYRACK_CLIENT_SECRET"])
        token = client.post("/oauth2/token", data={"grant_type": "client_credentials"}, auth=secret).json()
        headers = {"Authorization": f"Bearer {token['access_token']}", "Customer-ID": env["KEYRACK_CUSTOMER_ID"]}
        return client.get("/events", params={"$filter": f"userId eq {user}"}, headers=headers).json()
