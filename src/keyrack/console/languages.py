"""Languages of the pages, and their catalogues.

Templates contain the English texts. Each other language is a gettext catalogue, which is loaded at its first use.
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
LANGUAGES = {"en": "English", "de": "Deutsch"}  # each in its own language
LOCALES = {"en": "en_GB", "de": "de"}  # of dates and numbers: 22/11 and 19:00 in English
MAX_LANGUAGES = 20  # languages that are read of `Accept-Language`, at most


def language(chosen: str | None, accepted: str | None) -> str:
    """The language of a visit: the chosen one, else the first known one of `Accept-Language`, else English."""
    if chosen in LANGUAGES:
        return chosen
    tags = [part.partition(";")[0].strip() for part in (accepted or "").split(",", MAX_LANGUAGES)[:MAX_LANGUAGES]]
    return negotiate_locale([tag for tag in tags if tag], list(LANGUAGES), sep="-") or DEFAULT


@cache
def translations(language: str) -> NullTranslations:
    """The catalogue of a language, without fuzzy entries."""
    if language == DEFAULT:
        return NullTranslations()
    with (CATALOGUE / f"{language}.po").open("rb") as file:
        catalogue = read_po(file, locale=language, abort_invalid=True)
    compiled = BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return Translations(compiled)
