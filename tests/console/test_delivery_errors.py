"""Hints about failed deliveries and disabled webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

import httpx
import pytest

from keyrack.webhooks.delivery_errors import (
    ANSWERED,
    CERTIFICATE,
    DISABLED_BY_TOO_MUCH,
    ERRORS,
    NOT_REACHED,
    REASONS,
    TIMED_OUT,
)
from tests.support.people import Person
from tests.support.servers import eventually
from tests.webhooks.receiver import Receiver

NO_HINT = "Check the receiver's log at this time."


@dataclass
class Failed:
    """A disabled webhook with one failed delivery, which no worker sends again."""

    person: Person
    browser: httpx.Client
    webhook: int
    delivery: str

    def delivery_page(self, error: str) -> str:
        self.person.sql.execute(
            "update delivery set error = $1, status = null where customer_id = $2 and webhook_id = $3",
            error, self.person.customer, self.webhook,
        )  # fmt: skip
        return self._page(f"/deliveries/{self.delivery}")

    def webhook_page(self, reason: str) -> str:
        self.person.sql.execute("update webhook set disabled_reason = $1 where webhook_id = $2", reason, self.webhook)
        return self._page("")

    def _page(self, path: str) -> str:
        answer = self.browser.get(f"/{self.person.customer}/webhooks/{self.webhook}{path}")
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)


@pytest.fixture(scope="module")
def failed(alice: Person) -> Iterator[Failed]:
    with Receiver() as receiver, alice.browser() as browser:
        receiver.answer = lambda _: (410, b"", {})
        id = alice.put("/webhooks", {"url": "https://example.org/"}).json()["id"]
        alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/url", "value": receiver.url}])
        test = alice.post(f"/webhooks/{id}/test").json()["id"]
        eventually(lambda: alice.get(f"/webhooks/{id}").json()["disabledReason"], "the end of the webhook")
        eventually(lambda: alice.get(f"/webhooks/{id}/deliveries").json()[0]["status"] == 410, "the result")
        url = [{"op": "replace", "path": "/url", "value": "https://example.org/"}]
        assert alice.patch(f"/webhooks/{id}", url).is_success
        yield Failed(alice, browser, id, test)
        alice.delete(f"/webhooks/{id}")


def test_each_stored_error_has_a_cause_of_its_own(failed: Failed) -> None:
    without = [
        text
        for error in ERRORS
        if error is not ANSWERED  # its status has a hint
        for text in (error.format("some reason"), *error.earlier_texts)
        if text in failed.delivery_page(text)
    ]
    assert not without


def test_each_stored_reason_has_a_cause_of_its_own(failed: Failed) -> None:
    assert not [reason.text for reason in REASONS if reason.text in failed.webhook_page(reason.text)]


def test_causes_and_remedies(failed: Failed) -> None:
    for text in (NOT_REACHED.text, *NOT_REACHED.earlier_texts):
        assert "The name is unknown, the address is not public," in failed.delivery_page(text)
    assert "Let the receiver answer 204 at once" in failed.delivery_page(TIMED_OUT.text)
    page = failed.delivery_page(CERTIFICATE.format("certificate has expired"))
    assert "The certificate is not valid: certificate has expired." in page
    assert "Give the receiver a certificate that browsers trust" in page
    assert "send it fewer event types" in failed.webhook_page(DISABLED_BY_TOO_MUCH.text)


def test_the_text_of_another_release_is_shown(failed: Failed) -> None:
    page = failed.delivery_page("The endpoint is on fire.")
    assert "The endpoint is on fire." in page and NO_HINT in page
    assert "The receiver moved." in failed.webhook_page("The receiver moved.")
