"""Data in pages: right-to-left text is isolated, long words may break, and direction controls are visible.

This applies to every value of a template, as `finalize` of the environment. Short words from left to right stay
unchanged: tags around every value would add several kilobytes to a page of fifty rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jinja2 import pass_context
from markupsafe import Markup, escape

from keyrack.core.text import direction_control, visible_controls

LONGEST = 30  # letters of a word that does not break: names, numbers and most addresses are shorter
_LONG_WORD = re.compile(rf"\S{{{LONGEST + 1}}}")
# Letters and marks of right-to-left scripts
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\u200e\u200f\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_FIRST_STRONG_ISOLATE, _POP_DIRECTIONAL_ISOLATE = "\u2068", "\u2069"
_CONTROL = '<span class="control">[{}]</span>'
# Places where a tag would be shown as text: attributes, and elements that contain only text
_ATTRIBUTES = r"""(?:[^"'>]++|"[^"]*"|'[^']*')*"""
_WITHOUT_TAGS = re.compile(
    rf"(<(title|option|textarea|script)\b{_ATTRIBUTES}>)(.*?)(?=</\2>)|<[a-z]{_ATTRIBUTES}>", re.DOTALL | re.IGNORECASE
)
_BEGIN = re.compile('<bdi(?: class="long")?(?: dir="ltr")?>')
_END = "</bdi>"
_SHOWN_CONTROL = re.compile(r'<span class="control">(\[U\+([0-9A-F]{4})\])</span>')


class Sentence(str):
    """A text of the catalogues with isolated values."""

    __slots__ = ()


def datum(value: Any) -> Any:
    """A value for the page: in `<bdi>` if it may be right-to-left or has long words, otherwise unchanged."""
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
    """A text of the catalogues with filled placeholders, as plain text. Characters isolate the values."""
    return Sentence(text % {name: _in_characters(value) for name, value in values.items()})


def _in_characters(value: object) -> object:
    if type(value) is not str or value.isascii():
        return value
    shown = visible_controls(value)
    is_isolated = shown != value or _RIGHT_TO_LEFT.search(value)
    return f"{_FIRST_STRONG_ISOLATE}{shown}{_POP_DIRECTIONAL_ISOLATE}" if is_isolated else value


def with_data(translate: Callable[..., Any]) -> Callable[..., Any]:
    """A `gettext` for templates that fills placeholders with the markup of `datum`."""

    @pass_context
    def gettext(context: Any, /, *texts: Any, **values: object) -> Any:
        return translate(context, *texts, **{name: datum(value) for name, value in values.items()})

    return gettext


def without_stray_tags(page: str) -> str:
    """A page without these tags in attributes and in elements that contain only text.

    Attributes and `textarea` contain values that forms send, so they get the stored text. In `.input` the style sheets
    use the direction of the first letter. The title is isolated by characters.
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
