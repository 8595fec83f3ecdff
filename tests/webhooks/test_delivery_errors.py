"""Codes of stored delivery errors, also of earlier releases."""

from __future__ import annotations

import pytest

from keyrack.webhooks import delivery_errors
from keyrack.webhooks.delivery_errors import ERRORS, REASONS, DeliveryError, FoundError

RELEASE_02 = (
    "The endpoint could not be reached: its name is not known, its address is not public and not in "
    "KEYRACK_WEBHOOK_NETWORKS, or it does not answer there."
)


@pytest.mark.parametrize("errors", [ERRORS, REASONS])
def test_each_stored_text_has_the_code_of_its_error(errors: tuple[DeliveryError, ...]) -> None:
    wrong = [
        text
        for error in errors
        for text in (error.format("why"), *error.earlier_texts)
        if (found := delivery_errors.find(text, errors)) is None or found.code != error.code
    ]
    assert not wrong
    assert len({error.code for error in errors}) == len(errors)


def test_a_text_of_an_earlier_release_is_found() -> None:
    assert delivery_errors.find(RELEASE_02, ERRORS) == FoundError("not-reached")


def test_the_receivers_part_of_a_text_is_found() -> None:
    stored = delivery_errors.CERTIFICATE.format("certificate has expired")
    assert stored == "The endpoint's certificate is not valid: certificate has expired."
    assert delivery_errors.find(stored, ERRORS) == FoundError("certificate-invalid", "certificate has expired.")
    braces = delivery_errors.TLS.format("{why}")
    assert delivery_errors.find(braces, ERRORS) == FoundError("tls-failed", "{why}.")


def test_a_text_of_a_newer_release_has_no_code() -> None:
    assert delivery_errors.find("The endpoint is on fire.", ERRORS) is None
    assert delivery_errors.find("The endpoint answered 410 Gone", REASONS) is None
