"""The normal form of addresses: what is one address, and what stays another one."""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.core.addresses import address_form, domain_form, mail_recipient
from keyrack.core.text import email_address


def characters() -> Iterator[str]:
    """Every character beyond ASCII that a text can have."""
    return (chr(code) for code in range(0x80, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)


def ascii_images(character: str) -> set[str]:
    """The ASCII texts that foldings elsewhere make of a character; PostgreSQL's `lower()` has those of Python."""
    foldings = {
        character.lower(), character.upper(), character.casefold(), character.lower()[0], character.upper()[0],
        *(unicodedata.normalize(form, character) for form in ("NFC", "NFD", "NFKC", "NFKD")),
        unicodedata.normalize("NFD", character.lower())[0],
    }  # fmt: skip
    return {text.lower() for text in foldings if text.isascii()}


@functools.cache
def folded_characters() -> list[tuple[str, str]]:
    """Each character with its ASCII images. All workers import this module, and one runs its tests."""
    return [(character, text) for character in characters() for text in ascii_images(character)]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("demo", "demo"),
        ("Demo", "demo"),
        ("Kim@Example.ORG", "kim@example.org"),
        ("Kim@Bücher.Example", "kim@xn--bcher-kva.example"),
        ("kim@XN--BCHER-KVA.example", "kim@xn--bcher-kva.example"),
        ("kim@ｍａｉｌ.example", "kim@mail.example"),
        ("kim@mail。example", "kim@mail.example"),
        ("kim@faß.example", "kim@xn--fa-hia.example"),
        ("kim@\u212aim.example", "kim@kim.example"),
        ("boss@ma\u0130l.example", "boss@xn--mail-swc.example"),
        ("Jürgen@mail.example", "jürgen@mail.example"),
        ("JÜRGEN@mail.example", "jÜrgen@mail.example"),
        ("ｋim@mail.example", "ｋim@mail.example"),
        ("\u212aim@mail.example", "\u212aim@mail.example"),
        ("v\u0130ctim@mail.example", "v\u0130ctim@mail.example"),
        ("a@b@Mail.example", "a@b@mail.example"),
        ("kim@☃.example", "kim@☃.example"),
        ("J\u030c@mail.example", "\u01f0@mail.example"),  # no capital J has the mark in one character
        ("j\u030c@mail.example", "\u01f0@mail.example"),
        ("", ""),
        ("@", "@"),
    ],
)
def test_normal_form(text: str, form: str) -> None:
    assert address_form(text) == form


def test_a_normal_form_is_its_own_normal_form() -> None:
    """A mail that waits has a normal form, which is compared again."""
    marks = [character for character in characters() if unicodedata.combining(character)]
    letters = [*map(chr, range(0x41, 0x5B)), "\u212a", "\u00c5"]
    texts = (f"a{letter}{mark}@mail.example" for letter in letters for mark in marks)
    assert [text for text in texts if address_form(address_form(text)) != address_form(text)] == []


def test_no_character_of_a_local_part_becomes_ascii() -> None:
    """Other foldings make ASCII of these characters."""
    assert {"\u0130", "\u212a", "\u017f", "ｋ"} <= {character for character, _ in folded_characters()}
    same = [
        f"U+{ord(character):04X}"
        for character, text in folded_characters()
        if address_form(f"a{character}b@mail.example") == address_form(f"a{text}b@mail.example")
    ]
    assert same == []


def test_a_character_of_a_domain_becomes_ascii_only_by_uts_46() -> None:
    """Resolvers map these characters too. They do not map the dotless and the dotted i."""
    same = {
        character
        for character, text in folded_characters()
        if address_form(f"boss@a{character}b.example") == address_form(f"boss@a{text}b.example")
    }
    assert same.isdisjoint({"\u0130", "\u0131"})
    assert all(unicodedata.normalize("NFKC", character).isascii() or character in "\u017f" for character in same)
    assert {"\u212a", "ｋ"} <= same


@given(st.text())
def test_normal_form_is_idempotent(text: str) -> None:
    assert address_form(address_form(text)) == address_form(text)


@given(st.text(), st.text(min_size=1))
def test_normal_form_of_a_domain_is_idempotent(local_part: str, domain: str) -> None:
    form = address_form(f"{local_part}@{domain}")
    assert address_form(form) == form


@given(st.text(), st.sampled_from(["mail.example", "bücher.example"]))
def test_composed_and_decomposed_texts_are_the_same_address(local_part: str, domain: str) -> None:
    kept = "".join(character for character in local_part if character not in "\u037e\u1fef\u212a")
    composed, decomposed = (unicodedata.normalize(form, f"{kept}@{domain}") for form in ("NFC", "NFD"))
    assert address_form(composed) == address_form(decomposed)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_normal_form_of_ascii_is_lower_case(text: str) -> None:
    """So the database can compare ASCII texts that have no form yet."""
    assert address_form(text) == text.lower()


@pytest.mark.parametrize("domain", ["☃.example", "xn--zz.example", "a＠b.example", "ü..example", "ü" * 64, "a" * 254])
def test_domain_without_a_form_is_refused(domain: str) -> None:
    with pytest.raises(ValueError, match="domain"):
        domain_form(domain)
    with pytest.raises(ValueError, match=r"."):
        email_address(f"kim@{domain}")


def test_recipient_keeps_its_local_part() -> None:
    assert mail_recipient("JÜRGEN@Bücher.example") == "JÜRGEN@xn--bcher-kva.example"


@pytest.mark.parametrize("address", ["demo", "@mail.example", "kim@", "kim@☃.example"])
def test_no_recipient(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|domain"):
        mail_recipient(address)
