"""One notion of blank text, in what creates and in what changes."""

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
def test_a_blank_name_is_refused_by_what_creates_and_by_what_changes(alice: Person, text: str) -> None:
    """A8: every kind of white space, and what has no width, in every text that must say something."""
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
def test_what_shows_something_is_a_name_and_stays_as_it_is(alice: Person, text: str) -> None:
    """A8: names are not trimmed, and nothing that is seen counts as blank."""
    car = alice.car(text)
    assert alice.get(f"/cars/{car}").json()["name"] == text
    done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": text + text}]))
    assert alice.get(f"/cars/{car}").json()["name"] == text + text


def test_white_space_of_unicode_is_blank() -> None:
    """A8: whatever Unicode calls a space or a separator, and whatever Python takes for white space."""
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        if one.isspace() or unicodedata.category(one) in ("Zs", "Zl", "Zp"):
            assert is_blank(one), hex(number)


@given(st.text(st.one_of(st.sampled_from("".join(BLANK)), st.characters(exclude_characters="\0"))))
def test_the_notions_agree(text: str) -> None:
    """A8: what is trimmed away wholly is blank, and the pattern of the documents says the same."""
    assert is_blank(text) == (trimmed(text) == "") == (re.search(NOT_BLANK, text) is None)
    assert trimmed(trimmed(text)) == trimmed(text)
    assert trimmed(text) in text
