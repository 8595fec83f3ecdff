"""Each text of the console has a translation in every language, with the same placeholders."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

import keyrack
from keyrack import console
from keyrack.api.permissions import MEANINGS, ROLES
from keyrack.assignments import failure_codes
from keyrack.console import error_messages, static_files
from keyrack.console.languages import CATALOGUE, DEFAULT, LANGUAGES
from keyrack.console.pages import login
from keyrack.core.error_codes import ErrorCode
from keyrack.http.openapi.error_catalog import codes
from keyrack.http.routes import ALL
from keyrack.webhooks.dialects import DIALECTS

CONSOLE = Path(keyrack.__file__).parent / "console"
OTHERS = [language for language in LANGUAGES if language != DEFAULT]
TEMPLATES = {"silent": "false", "extensions": "jinja2.ext.i18n", "trim_blocks": "true", "lstrip_blocks": "true"}
# Codes of what a page does not let anybody do, a browser never sends, or the edge refuses before there is a page: they
# stay in the words of the API. So do the faults that OData finds in a filter (invalid-query): they name its words
_CODES = """
batch-with-query empty-time-range end-before-start form-too-long http-too-old invalid-brand invalid-customer-id
invalid-gzip invalid-header invalid-http invalid-idempotency-key invalid-if-match invalid-json invalid-lines
invalid-parameter invalid-query invalid-query-parameter invalid-sdk-combination invalid-search-date
invalid-user-parameters lifetime-out-of-range missing-customer-id missing-parameter no-product-named no-steps
parameter-given-twice query-not-ascii renewable-after-out-of-range repeated-members time-range-too-long
too-many-errors too-many-items too-many-passwords too-many-steps unknown-members unsupported-grant-type
wrong-form-of-body invalid-api-key invalid-device-key invalid-token missing-scope drawing-not-found head-too-slow
precondition-only-for-reads precondition-unsupported body-too-packed too-many-lines query-too-long
unsupported-media-type batch-refused item-undone too-many-streams-of-caller too-many-streams-of-customer
head-too-large host-header invalid-host transfer-coding too-many-streams ingest-overloaded ingest-overloaded-by-key
too-many-connections
too-many-connections-of-address overloaded not-ready schema-not-current stopping
invalid-position database-silent no-worker archive-late cursor-gone stream-with-options
change-not-found change-not-proven checkpoint-ahead log-altered no-checkpoint password-not-enough
no-stream-for-limited
box-key-used box-keys-inconsistent box-not-enrolled no-key-for-box device-of-other-user enrolment-nonce-unknown
product-takes-no-keys status-list-not-found too-many-devices
device-not-approved device-removed registration-nonce-unknown token-before-removal
invalid-scope token-of-another two-client-authentications client-authentication-required invalid-client for-people-only
"""
OF_PROGRAMS = set(_CODES.split())
PLACE = re.compile(r"%\(\w+\)s|\{\w+\}")


def said() -> dict[str, str]:
    """Text of a template or of Python -> its place."""
    keywords = {"_": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}
    of_templates = extract_from_dir(
        CONSOLE / "templates", [("**.html", "jinja2")], {"**.html": TEMPLATES}, {**keywords, "gettext": None}
    )
    of_python = extract_from_dir(CONSOLE, [("**.py", "python")], keywords={"gettext": (2,), "N_": None, "say": None})
    declared = [("*/declarations.py", "python"), ("api/schema/references.py", "python")]
    of_members = extract_from_dir(CONSOLE.parent, declared, keywords={"N_": None})
    found = {
        text: f"{file}:{line}"
        for file, line, found, _, _ in [*of_templates, *of_python, *of_members]
        for text in ([found] if isinstance(found, str) else found)
    }
    of_dialects = [text for dialect in DIALECTS.values() for text in (dialect.label, dialect.hint)]
    return (
        found
        | dict.fromkeys([*MEANINGS.values(), *ROLES.values()], "keyrack/api/permissions.py")
        | dict.fromkeys(failure_codes.TEXTS.values(), "keyrack/assignments/failure_codes.py")
        | dict.fromkeys(of_dialects, "keyrack/webhooks/dialects.py")
    )


def of_refusals() -> set[str]:
    """The texts and remedies of all reasons, with their places."""
    texts = {text for code in codes(ALL) for text in (*code.texts, code.remedy)}
    return texts | {text for reason in of_pages() for text in (reason.text, reason.remedy)}


def of_pages() -> set[ErrorCode]:
    """The reasons of the pages themselves."""
    names = (module.name for module in pkgutil.walk_packages(console.__path__, "keyrack.console."))
    return {
        found for name in names for found in vars(importlib.import_module(name)).values() if type(found) is ErrorCode
    }


def catalogue(language: str) -> Catalog:
    with (CATALOGUE / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


@pytest.mark.parametrize("language", OTHERS)
def test_nothing_is_missing_unsure_or_left_over(language: str) -> None:
    whole, texts = catalogue(language), said()
    known = {
        text: entry for entry in whole if entry.id for text in ([entry.id] if isinstance(entry.id, str) else entry.id)
    }
    missing = {text: place for text, place in texts.items() if text not in known}
    assert missing == {}, f"Add these texts with their translations to src/keyrack/console/catalogue/{language}.po."
    assert {text for text in known if text not in texts} <= of_refusals()
    assert [text for text, entry in known.items() if entry.fuzzy or not all(entry.string)] == []
    assert not whole.obsolete and not whole.header_comment.startswith("#, fuzzy")


@pytest.mark.parametrize("language", OTHERS)
def test_a_refusal_is_told_in_every_language(language: str) -> None:
    known = {entry.id for entry in catalogue(language)}
    met = [code for code in codes(ALL) if code.code not in OF_PROGRAMS]
    assert [text for code in met for text in code.texts if text not in known] == []
    assert [code.remedy for code in met if code.code in error_messages.OF_PAGES and code.remedy not in known] == []
    for reason in (login.NOBODYS, static_files.NO_FILE, static_files.OTHER_VERSION):
        assert {reason.text, reason.remedy} <= known


def test_what_only_programs_meet_is_refused_them_somewhere() -> None:
    assert {code.code for code in codes(ALL)} >= OF_PROGRAMS


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_fills_the_same_places(language: str) -> None:
    for entry in catalogue(language):
        if isinstance(entry.id, str) and isinstance(entry.string, str):
            wanted, found = sorted(PLACE.findall(entry.id)), sorted(PLACE.findall(entry.string))
            # The request in an error, for example "create webhook", is English: a translation may leave it out
            assert found == wanted or (entry.id.startswith("Couldn't {what}") and {*found} < {*wanted}), entry.id


def test_each_text_of_the_console_is_found() -> None:
    assert {"Sign in to Keyrack", "Skip to the content", "The user name or the password is wrong."} <= said().keys()
