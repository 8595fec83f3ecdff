"""The console uses the dispatcher's words. The API's words are in Help and in the API's own texts."""

from __future__ import annotations

import re
from html import unescape

import pytest

from keyrack.api.permissions import MEANINGS, ROLES
from keyrack.assignments.failure_codes import TEXTS
from keyrack.console.forbidden import NAMES
from keyrack.console.languages import LANGUAGES, translations
from keyrack.console.words import WORDS
from keyrack.webhooks.dialects import DIALECTS
from tests.console.test_catalogue import said
from tests.support.people import Person

# The words that each language of the console does not use, and what may contain them
OLD = {
    "en": re.compile(
        r"assign|\b(users?(?! name)|managers?|units?(?! of notice)|operations?|events?(?! types?)|overview|board"
        r"|overlaps?|(un)?install(s|ed)?|erase[sd]?|replays?|in force|coming|pending|succeed(s|ed)?|dead|told"
        r"|key forms?)\b",
        re.IGNORECASE,
    ),
    "de": re.compile(
        r"zuweis|\b(Benutzern?|Nutzern?|Verwaltern?|Vorg[aä]nge?|Vorgangs|Ereignisse?|Tafel|Übersicht|Kennw[oö]rt(er)?"
        r"|Ausstehend|Erfolgreich|Steht bevor|Vorbei)\b",
        re.IGNORECASE,
    ),
}


def own_texts() -> set[str]:
    """The texts of the console without those of the API.

    Permissions, roles, errors of operations and formats are described in the words of the API.
    """
    of_api = {*MEANINGS.values(), *ROLES.values(), *TEXTS.values(), *NAMES.values()}
    of_api |= {text for dialect in DIALECTS.values() for text in (dialect.label, dialect.hint)}
    return said().keys() - of_api


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_has_a_word_of_the_api(language: str) -> None:
    shown = translations(language)
    texts = {re.sub(r"%\(\w+\)s", "", shown.gettext(text)) for text in own_texts()}
    assert sorted(text for text in texts if OLD[language].search(text)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_help_has_each_word_with_that_of_the_api(alice: Person, language: str) -> None:
    shown = translations(language)
    with alice.browser() as browser:
        page = unescape(browser.get(f"/{alice.customer}/help", headers={"Accept-Language": language}).text)
    for word in WORDS:
        row = rf">{re.escape(shown.gettext(word.label))}</th><td lang=\"en\"><code>{word.api}</code></td>"
        assert re.search(row, page), word.label


def test_a_booking_shows_its_name_in_the_api(carol: Person) -> None:
    id = carol.assignment(carol.car_with_box(), carol.user(), "2031-01-01T00:00:00Z")
    with carol.browser() as browser:
        page = browser.get(f"/{carol.customer}/assignments/{id}").text
    assert f'API: <a href="/console/{carol.customer}/help#words">assignment {id}</a>' in page
