"""In charge of the languages of the pages: which one a visit has, and the catalogues.

English is what the templates say; every other language is a gettext catalogue that is read when it is needed first.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path

from babel.core import negotiate_locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations

CATALOGUE = Path(__file__).parent / "catalogue"
DEFAULT = "en"
LANGUAGES = {"en": "English", "de": "Deutsch"}  # as each calls itself
LOCALES = {"en": "en_GB", "de": "de"}  # whose dates and numbers: 22/11 and 19:00 in English, as around the fleets
LOOKED_AT = 20  # languages that a browser asks for, at most


def language(chosen: str | None, accepted: str | None) -> str:
    """The language of a visit: the chosen one, else the first of `Accept-Language` that there is, else English."""
    if chosen in LANGUAGES:
        return chosen
    tags = [part.partition(";")[0].strip() for part in (accepted or "").split(",", LOOKED_AT)[:LOOKED_AT]]
    return negotiate_locale([tag for tag in tags if tag], list(LANGUAGES), sep="-") or DEFAULT


@cache
def translations(language: str) -> NullTranslations:
    """The catalogue of a language. Entries that are marked as unsure are left out, as gettext has it."""
    if language == DEFAULT:
        return NullTranslations()
    with (CATALOGUE / f"{language}.po").open("rb") as file:
        catalogue = read_po(file, locale=language, abort_invalid=True)
    compiled = BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return Translations(compiled)
