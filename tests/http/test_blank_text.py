"""Blank text is rejected alike on creation and on change."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.core.text import NOT_BLANK, is_blank, trimmed
from tests.support.people import Person, done, refused
from tests.telemetry.endpoints.test_events import EVENT

BLANK = [
    " ", "\t\r\n", "\x1f", "\x85", "\u00a0", "\u2007\u202f", "\u3000", "\u200b", "\ufeff", "\u2060\u00ad", "\u3164",
]  # fmt: skip


@pytest.mark.parametrize("text", ["", *BLANK], ids=ascii)
def test_blank_text_is_rejected_on_creation_and_on_change(alice: Person, text: str) -> None:
    """A8: every white space and zero-width character, in every text that must not be blank."""
    car, group = alice.car("Seen"), alice.group()
    step = [{"op": "replace", "path": "/name", "value": text}]
    people: dict[str, Any] = {
        "emailAddress": "blank@example.org", "userData": {"firstName": text, "lastName": text}
    }  # fmt: skip
    event = EVENT | {"carId": car, "userId": alice.user(), "userAgent": text}
    for answer, what, members in (
        (alice.put("/cars", {"name": text}), "create car", "name"),
        (alice.patch(f"/cars/{car}", step), "update car", "name"),
        (alice.put("/groups", {"name": text}), "create group", "name"),
        (alice.patch(f"/groups/{group}", step), "update group", "name"),
        (alice.put("/users", people), "create user", "firstName and lastName"),
        (alice.put("/events", event), "create event", "userAgent"),
        (alice.post("/sdk/token", {"customerId": 1, "sdkKey": text, "userId": 1}), "get token", "sdkKey"),
    ):
        refused(answer, 400, f"Couldn't {what}. No valid {members} provided.")
    assert alice.get(f"/cars/{car}").json()["name"] == "Seen"


@pytest.mark.parametrize("text", ["x", " x ", "\u200bx", "0", "़", "\u0600", "🚗", "﷽"], ids=ascii)
def test_visible_text_is_accepted_and_not_trimmed(alice: Person, text: str) -> None:
    """A8: names are not trimmed, and no visible character counts as blank."""
    car = alice.car(text)
    assert alice.get(f"/cars/{car}").json()["name"] == text
    done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": text + text}]))
    assert alice.get(f"/cars/{car}").json()["name"] == text + text


def test_unicode_white_space_is_blank() -> None:
    """A8: the spaces and separators of Unicode, and the white space of Python."""
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        if one.isspace() or unicodedata.category(one) in ("Zs", "Zl", "Zp"):
            assert is_blank(one), hex(number)


@given(st.text(st.one_of(st.sampled_from("".join(BLANK)), st.characters(exclude_characters="\0"))))
def test_trimming_blankness_and_the_schema_pattern_agree(text: str) -> None:
    """A8: text is blank if trimming leaves nothing, and the documented pattern agrees."""
    assert is_blank(text) == (trimmed(text) == "") == (re.search(NOT_BLANK, text) is None)
    assert trimmed(trimmed(text)) == trimmed(text)
    assert trimmed(text) in text
