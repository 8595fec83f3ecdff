"""Cells of lists: the value of a column for the page and for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from keyrack.console.languages import translations
from keyrack.console.lists.definition import TIMES, CellLink, ListColumn, Row
from keyrack.console.rendering import base, clock, tongue
from keyrack.console.shown_text import datum
from keyrack.http.page_router import Visit


class Cells:
    """The cells of one visit."""

    def __init__(self, visit: Visit) -> None:
        self._clock = clock(visit)
        self._base = base(visit)
        self._say = translations(tongue(visit)).gettext

    def shown(self, column: ListColumn, row: Row) -> Any:
        """The arguments of the template's `cell` for a column of this kind."""
        value = column.value(row)
        if value is None or value == "" or value == []:
            return None
        if column.kind == "minute":
            return self._clock.moment(value, "short")
        if column.kind == "date":
            return self._clock.calendar_date_shown(value)
        if column.kind == "time":
            time = self._clock.moment(value, "short" if column.ago else "medium")
            return Markup("<span data-relative>{}</span>").format(time) if column.ago else time
        if column.kind == "status":
            kind, word = column.words[str(value)]
            return {"kind": kind, "word": self._say(word), "sign": column.signs.get(str(value), "")}
        if column.kind == "word":
            return self._say(column.words[str(value)][1])
        if column.kind == "said":
            return self._say(value)
        if column.kind == "links":
            several = _several(value)
            # After a comma, the owner of a note would be ambiguous
            between = Markup("<br>") if any(link.note for link in several) else Markup(", ")
            return between.join(self._link(link) for link in several)
        return value

    def _link(self, link: CellLink) -> Markup:
        text = escape(datum(self._text(link)))
        if link.path:
            text = f'<a href="{escape(self._base)}{escape(link.path)}">{text}</a>'
        if not link.note:
            return Markup(text)  # noqa: S704 - each part of it is escaped
        time = self._clock.moment(link.at, "short") if link.at else ""
        note = escape(self._say(link.note)) % {"time": time}
        return Markup(f'{text} <span class="muted">{note}</span>')  # noqa: S704 - as above

    def written(self, column: ListColumn, row: Row) -> str:
        """The value as text. Times are on the person's clock, without the zone."""
        value = column.value(row)
        if value is None or value == "":
            return ""
        if column.kind in TIMES:
            return self._clock.text(value)
        if column.kind == "date":
            return self._clock.calendar_date(value).isoformat()
        if column.kind in ("status", "word"):
            return self._say(column.words[str(value)][1])
        if column.kind == "said":
            return self._say(value)
        if column.kind == "sentence":
            return value.striptags()
        if column.kind == "links":
            return ", ".join(self._plain(link) for link in _several(value))
        return str(value)

    def named(self, columns: Sequence[ListColumn], row: Row) -> Markup:
        """The name of a row in a sentence: its values, with a pair of times as a span."""
        name = Markup("")
        was_time = False
        for column in columns:
            if not self.written(column, row):
                continue
            is_time = column.kind in TIMES
            text = self.shown(column, row) if is_time else datum(self.written(column, row))
            between = "" if not name else " – " if is_time and was_time else ", "
            name, was_time = name + between + text, is_time
        return name

    def _plain(self, link: CellLink) -> str:
        text = self._text(link)
        time = self._clock.text(link.at) if link.at else ""
        return f"{text} {self._say(link.note) % {'time': time}}" if link.note else text

    def _text(self, link: CellLink) -> str:
        return self._say(link.text) if link.said else link.text


def _several(value: CellLink | Sequence[CellLink]) -> Sequence[CellLink]:
    return [value] if isinstance(value, CellLink) else value
