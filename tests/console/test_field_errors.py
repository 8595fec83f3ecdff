"""Errors of fields and of typed filters, in both languages."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from tests.support.people import Person

LANGUAGES = ("en", "de")


@pytest.fixture(scope="module")
def visitor(alice: Person) -> Iterator[httpx.Client]:
    with alice.browser() as client:
        yield client


@pytest.mark.parametrize(
    ("language", "typed", "said"),
    [
        ("en", {"name": ""}, "Name: This field is required."),
        ("de", {"name": " "}, "Name: Dieses Feld ist erforderlich."),
        ("en", {"name": "x", "vin": "v" * 251}, "VIN: It has at most 250 characters."),
        ("de", {"name": "x", "licensePlate": "p" * 251}, "Kennzeichen: Es sind höchstens 250 Zeichen möglich."),
        ("de", {"name": "x", "description": "d" * 4001}, "Beschreibung: Es sind höchstens 4000 Zeichen möglich."),
        ("en", {"name": "a\u202eb"}, "Name: An invisible character here changes the direction of the text."),
        ("de", {"name": "a\u2069b"}, "Name: Ein unsichtbares Zeichen ändert hier die Schreibrichtung."),
        ("en", {"name": "x", "model": "a\0b"}, "Model: This value is not valid here: it has characters or a form"),
        (
            "de",
            {"name": "x", "model": "a\0b"},
            "Modell: Dieser Wert ist hier ungültig: Er enthält Zeichen oder eine Form, die nicht erlaubt sind.",
        ),
    ],
)
def test_a_new_car_is_refused_at_its_field(
    alice: Person, visitor: httpx.Client, language: str, typed: dict[str, str], said: str
) -> None:
    answer = visitor.post(f"/{alice.customer}/cars/new", data=typed, headers={"Accept-Language": language})
    assert answer.status_code == 400
    assert said in unescape(answer.text)


@pytest.mark.parametrize(
    ("language", "fact", "value", "said"),
    [
        ("en", "vin", "v" * 251, "It has at most 250 characters."),
        ("de", "description", "d" * 4001, "Es sind höchstens 4000 Zeichen möglich."),
        ("en", "model", "a\u2066b", "An invisible character here changes the direction of the text."),
        ("en", "model", "a\0b", "This value is not valid here: it has characters or a form that are not allowed."),
        (
            "de",
            "model",
            "a\0b",
            "Dieser Wert ist hier ungültig: Er enthält Zeichen oder eine Form, die nicht erlaubt sind.",
        ),
    ],
)
def test_a_fact_is_refused_for_what_is_wrong_with_it(
    alice: Person, visitor: httpx.Client, language: str, fact: str, value: str, said: str
) -> None:
    address = f"/{alice.customer}/cars/{alice.car()}/facts/{fact}"
    answer = visitor.post(address, data={"value": value}, headers={"Accept-Language": language})
    assert answer.status_code == 400
    assert said in unescape(answer.text)
    assert ("250" in said) == ("at most 250" in answer.text)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            "name eq 'a' nonsense",
            (
                "Syntax error at position 11: an operator or the end was expected.",
                "Syntaxfehler an Stelle 11: erwartet wird ein Operator oder das Ende.",
            ),
        ),
        (
            "colour eq 1",
            (
                "The filter names colour, which does not exist here.",
                "Der Filter nennt colour, das es hier nicht gibt.",
            ),
        ),
        (
            "name eq 1",
            (
                "The filter compares String and Int32 with eq, which is not possible.",
                "Der Filter vergleicht String und Int32 mit eq, was nicht möglich ist.",
            ),
        ),
        (
            "name",
            (
                "The filter must be true or false, but it is String.",
                "Der Filter muss wahr oder falsch ergeben, er ergibt aber String.",
            ),
        ),
    ],
)
def test_ones_own_filter_is_refused_alike_wherever_it_is_used(
    alice: Person, visitor: httpx.Client, condition: str, said: tuple[str, str]
) -> None:
    address = f"/{alice.customer}/cars"
    for language, text in zip(LANGUAGES, said, strict=True):
        visitor.headers["Accept-Language"] = language
        asked = {"filter": condition}
        answers = [
            visitor.get(address, params=asked),
            visitor.get(f"{address}.csv", params=asked),
            visitor.post(f"{address}/bulk/delete", params=asked, data={"all": "true"}),
        ]
        for answer in answers:
            assert answer.status_code == 400 and text in unescape(answer.text)
            assert "The query specified" not in answer.text and "@own:" not in answer.text
    del visitor.headers["Accept-Language"]
