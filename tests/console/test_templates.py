"""Templates follow the policy of the pages, and name only existing icons."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import keyrack
from keyrack.console.languages import LANGUAGES, translations
from tests.support.cases import for_all

TEMPLATES = Path(keyrack.__file__).parent / "console" / "templates"
EVERY = sorted(TEMPLATES.rglob("*.html"))
FORBIDDEN = {
    "a style attribute": r"\sstyle\s*=",
    "a style element": r"<style",
    "a script's text": r"<script(?![^>]*\bsrc=)[^>]*>",
    "an event handler": r"\son[a-z]+\s*=",
    "an event handler of htmx": r"\bhx-on",
    "code in an attribute of htmx": r"[\"'\s](js|javascript):",
    "a filter of a trigger": r"hx-trigger\s*=\s*\"[^\"]*\[",
    "another host": r"(?:src|href|action)\s*=\s*\"(?:https?:)?//",
}


@for_all("template", EVERY)
def test_a_template_says_nothing_that_the_policy_forbids(template: Path) -> None:
    text = template.read_text()
    assert [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text)] == []


@for_all("template", EVERY)
def test_a_template_says_what_it_takes(template: Path) -> None:
    assert template.read_text().startswith("{#-")


# A text of the catalogues in a template: `{{ _("text") }}`, `{{ pgettext("context", "text") }}`, or a block `trans`
TEXT = re.compile(
    r'\{\{-? *(?:_|pgettext)\((?:"(?P<context>[^"]*)", )?"(?P<text>[^"]*)"(?:, [^)]*)?\) *-?\}\}'
    r"|\{%-? *trans\b.*?-?%\}(?P<block>.*?)\{%-? *endtrans *-?%\}",
    re.DOTALL,
)
PLACE = re.compile(r"\{\{ *(\w+) *\}\}")
OTHER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)


class Controls(HTMLParser):
    """Controls with an accessible name other than their content: pairs of the name and the visible texts."""

    KINDS = ("a", "button", "summary")

    def __init__(self, template: str, language: str) -> None:
        super().__init__()
        self.named: list[tuple[str, list[str]]] = []
        self._gettext = translations(language)
        self._open: list[str] = []
        self.feed(OTHER.sub("", TEXT.sub(self._translated, template)))

    def _translated(self, match: re.Match[str]) -> str:
        if match["context"]:
            return f"[{self._gettext.pgettext(match['context'], match['text'])}]"
        text = match["text"] if match["block"] is None else PLACE.sub(r"%(\1)s", match["block"])
        return f"[{self._gettext.gettext(text)}]"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._open:
            self._open.append(tag)
        elif tag in self.KINDS and (label := dict(attrs).get("aria-label")):
            self._open = [tag]
            self.named.append((label, []))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.named[-1][1].extend(re.findall(r"\[(.*?)\]", data))


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_accessible_name_contains_the_visible_label(language: str) -> None:
    """WCAG 2.2, 2.5.3: voice control uses the visible text."""
    controls = [(path.name, *one) for path in EVERY for one in Controls(path.read_text(), language).named]
    assert {("managers.html", 1)} <= {(name, len(shown)) for name, _, shown in controls}
    assert [
        (name, label, text)
        for name, label, shown in controls
        for text in shown
        if text.casefold() not in label.casefold()
    ] == []
