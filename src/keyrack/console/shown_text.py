"""Data in pages: text from right to left is isolated, long words may break, and direction controls are shown.

All three hold for every value that a template shows, as `finalize` of its environment. Text of short words from left to
right stays unchanged: tags around all of it would make a page of fifty rows several kilobytes larger.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jinja2 import pass_context
from markupsafe import Markup, escape

from keyrack.core.text import direction_control, visible_controls

LONGEST = 30  # letters of a word that stays in one line: names, numbers and most addresses are shorter
_LONG_WORD = re.compile(rf"\S{{{LONGEST + 1}}}")
# Letters of scripts that run from right to left, and their marks
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\u200e\u200f\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_FIRST_STRONG_ISOLATE, _POP_DIRECTIONAL_ISOLATE = "\u2068", "\u2069"
_CONTROL = '<span class="control">[{}]</span>'
# Places in which a tag would be text: attributes, and elements that hold text alone
_ATTRIBUTES = r"""(?:[^"'>]++|"[^"]*"|'[^']*')*"""
_WITHOUT_TAGS = re.compile(
    rf"(<(title|option|textarea|script)\b{_ATTRIBUTES}>)(.*?)(?=</\2>)|<[a-z]{_ATTRIBUTES}>", re.DOTALL | re.IGNORECASE
)
_BEGIN = re.compile('<bdi(?: class="long")?(?: dir="ltr")?>')
_END = "</bdi>"
_SHOWN_CONTROL = re.compile(r'<span class="control">(\[U\+([0-9A-F]{4})\])</span>')


class Sentence(str):
    """A text of the catalogues whose values are isolated already."""

    __slots__ = ()


def datum(value: Any) -> Any:
    """The value for a page: in `<bdi>` if it may run from right to left or has long words, otherwise unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup) or (len(value) <= LONGEST and value.isascii()):
        return value
    is_long = _LONG_WORD.search(value)
    if isinstance(value, Sentence):
        return Markup('<bdi class="long" dir="ltr">{}</bdi>').format(value) if is_long else value
    has_control = direction_control(value)
    if not is_long and not has_control and not _RIGHT_TO_LEFT.search(value):
        return value
    shown = visible_controls(escape(value), _CONTROL) if has_control else escape(value)
    return Markup(f'<bdi class="long">{shown}</bdi>' if is_long else f"<bdi>{shown}</bdi>")  # noqa: S704 - escaped above


def sentence(text: str, values: dict[str, object]) -> str:
    """A text of the catalogues with its places filled, as plain text: isolated by characters instead of tags."""
    return Sentence(text % {name: _in_characters(value) for name, value in values.items()})


def _in_characters(value: object) -> object:
    if type(value) is not str or value.isascii():
        return value
    shown = visible_controls(value)
    is_isolated = shown != value or _RIGHT_TO_LEFT.search(value)
    return f"{_FIRST_STRONG_ISOLATE}{shown}{_POP_DIRECTIONAL_ISOLATE}" if is_isolated else value


def with_data(translate: Callable[..., Any]) -> Callable[..., Any]:
    """A `gettext` of templates whose places are filled with data as `datum` shows it."""

    @pass_context
    def gettext(context: Any, /, *texts: Any, **values: object) -> Any:
        return translate(context, *texts, **{name: datum(value) for name, value in values.items()})

    return gettext


def without_stray_tags(page: str) -> str:
    """A page without these tags in attributes and in elements that hold text alone.

    Attributes and `textarea` hold values that forms send, so they get the stored text. `.input` of the style sheets
    has the direction of its first letter. The title is isolated by characters.
    """
    return _WITHOUT_TAGS.sub(_plain, page) if _END in page else page


def _plain(part: re.Match[str]) -> str:
    if _END not in part[0]:
        return part[0]
    element = (part[2] or "").lower()
    if element not in ("title", "option"):
        return _stored(part[0])
    begin, end = (_FIRST_STRONG_ISOLATE, _POP_DIRECTIONAL_ISOLATE) if element == "title" else ("", "")
    shown = _SHOWN_CONTROL.sub(r"\1", part[3])
    return _stored(part[1]) + _BEGIN.sub(begin, shown).replace(_END, end)


def _stored(text: str) -> str:
    controls = _SHOWN_CONTROL.sub(lambda control: chr(int(control[2], 16)), text)
    return _BEGIN.sub("", controls).replace(_END, "")
