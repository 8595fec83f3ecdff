"""CSV files of lists: all matching rows, streamed while they are read."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import structlog

from keyrack.api.exchange import Response
from keyrack.console.lists.cells import Cells
from keyrack.console.lists.definition import TIMES, List, ListColumn
from keyrack.console.lists.filter_errors import wrong
from keyrack.console.lists.query import all_of, complete_rows, pieces_of
from keyrack.console.lists.state import InvalidListState, ListState, read
from keyrack.console.rendering import clock, gettext, tongue
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, ConnectionAborted, NotImplemented, Refusal
from keyrack.core.text import N_, no_formula
from keyrack.http.page_router import InternalResponse, Visit

log = structlog.get_logger("keyrack.console")

MEDIA_TYPE = "text/csv; charset=utf-8"
MARK = "\ufeff"  # marks the file as UTF-8 for Excel
SEPARATORS = {"de": ";"}  # Excel's separator where the comma is the decimal separator
AT_ONCE = 10_000  # rows of one page of a paged list
WRITTEN = 500  # rows that are sent at once
_ROW = re.compile(r"[\[,\s]*\{")  # up to the beginning of the next row

COMPLETE = N_("Complete: %(rows)s rows")
CUT = N_("Incomplete: only the first %(rows)s rows. Narrow the list to get the others.")
BROKEN = N_("Interrupted after %(rows)s rows by an error. Export again.")
BROKEN_ADDRESS = ErrorCode("list-address-not-understood", "{text}", "Go back to the list and export it from there.")


async def file(listing: List, visit: Visit) -> Response:
    """The file. Raises the `Refusal` of the endpoint, translated, or `BadRequest` for an invalid address."""
    try:
        state = read(listing, visit)
    except InvalidListState as broken:
        raise BadRequest(BROKEN_ADDRESS.format(text=broken)) from None
    pieces = _Pieces(visit, state)
    try:
        first = await pieces.first()
    except (BadRequest, NotImplemented) as refusal:
        raise type(refusal)(BROKEN_ADDRESS.with_text(wrong(visit, state, refusal))) from None
    name = f"{listing.name}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(200, None, headers, MEDIA_TYPE, parts=_written(visit, state, pieces, first))


class _Pieces:
    """The answers with the rows: one for the whole list, or one per page."""

    def __init__(self, visit: Visit, state: ListState) -> None:
        self._visit = visit
        self._state = state
        self._most = visit.settings.console_export_max_rows + 1  # one more, which shows that there are more
        self._upto = ""
        self._at_once = min(AT_ONCE, visit.settings.odata_top)

    async def first(self) -> InternalResponse:
        if self._state.listing.paged and not self._state.listing.walked:
            self._upto = await self._newest()
        return await self._next(0)

    async def _newest(self) -> str:
        """The condition that leaves out rows added during the export, which would shift the pages."""
        name = self._state.listing.newest
        query = {"$orderby": f"{name} desc", "$top": "1"}
        rows = (await all_of(self._visit, ListState(self._state.listing), [], **query)).json
        return f"{name} le {rows[0][name]}" if rows else ""

    async def _next(self, skip: int) -> InternalResponse:
        if not self._state.listing.paged:
            return await pieces_of(self._visit, self._state, self._state.shown)
        paging = {"$top": str(min(self._at_once, self._most - skip)), "$skip": str(skip)}
        return await pieces_of(self._visit, self._state, self._state.shown, self._upto, **paging)

    async def rows(self, first: InternalResponse) -> AsyncGenerator[dict[str, Any]]:
        """All rows up to the maximum, and one more if there is one."""
        listing, reply, count = self._state.listing, first, 0
        while True:
            before, last = count, None
            async with aclosing(_rows(reply)) as rows:
                async for row in rows:
                    yield row
                    count, last = count + 1, row.get(listing.id)
                    if count >= self._most:
                        return
            if not listing.paged or count - before < self._at_once:
                return
            if listing.walked:
                self._upto = f"{listing.id} lt {last}"
            reply = await self._next(0 if listing.walked else count)


async def _written(visit: Visit, state: ListState, pieces: _Pieces, first: InternalResponse) -> AsyncGenerator[bytes]:
    """The bytes of the file. The last line says whether it is complete, because the status was sent earlier."""
    cells, columns, most, count, end = Cells(visit), state.shown, visit.settings.console_export_max_rows, 0, COMPLETE
    sheet = _Sheet(SEPARATORS.get(tongue(visit), ","))
    sheet.add([_heading(visit, column) for column in columns])
    yield (MARK + sheet.taken()).encode()
    try:
        async with aclosing(pieces.rows(first)) as rows, aclosing(_together(rows)) as several:
            async for some in several:
                for row in await complete_rows(visit, state.listing, some[: most - count]):
                    sheet.add([cells.written(column, row) for column in columns], [column.kind for column in columns])
                if count + len(some) > most:
                    count, end = most, CUT
                    break
                count += len(some)
                yield sheet.taken().encode()
    except (ConnectionAborted, Refusal):
        end = BROKEN
        log.warning("list export aborted", list=state.listing.name, rows=count, exc_info=True)
    sheet.add([gettext(visit, end, rows=count)])
    yield sheet.taken().encode()


async def _together(rows: AsyncIterator[dict[str, Any]]) -> AsyncGenerator[list[dict[str, Any]]]:
    """The rows in chunks. If reading fails, the rows read before are included."""
    some: list[dict[str, Any]] = []
    try:
        async for row in rows:
            some.append(row)
            if len(some) == WRITTEN:
                yield some
                some = []
    except (ConnectionAborted, Refusal):
        yield some
        raise
    yield some


def _heading(visit: Visit, column: ListColumn) -> str:
    label = gettext(visit, column.label)
    return f"{label} ({clock(visit).zone.key})" if column.kind in TIMES else label


class _Sheet:
    """Lines of RFC 4180."""

    def __init__(self, separator: str) -> None:
        self._lines = io.StringIO()
        self._writer = csv.writer(self._lines, delimiter=separator, lineterminator="\r\n")

    def add(self, texts: Sequence[str], kinds: Sequence[str] = ()) -> None:
        """Add a line. Only values of the kind `number` can look like formulas."""
        guarded = [
            text if kind == "number" else no_formula(text) for text, kind in zip(texts, kinds or texts, strict=True)
        ]
        self._writer.writerow(guarded)

    def taken(self) -> str:
        """The text since the last call."""
        text = self._lines.getvalue()
        self._lines.seek(0)
        self._lines.truncate()
        return text


async def _rows(reply: InternalResponse) -> AsyncGenerator[dict[str, Any]]:
    """The rows of an answer. Those of a streamed answer arrive with its chunks."""
    if reply.parts is None:
        for row in reply.json:
            yield row
        return
    decoder, waiting = json.JSONDecoder(), ""
    async with aclosing(_texts(reply.parts)) as texts:
        async for text in texts:
            waiting, at = waiting + text, 0
            while match := _ROW.match(waiting, at):
                try:
                    row, at = decoder.raw_decode(waiting, match.end() - 1)
                except json.JSONDecodeError:
                    break  # the rest is in the next chunk
                yield row
            waiting = waiting[at:]


async def _texts(parts: AsyncIterator[bytes]) -> AsyncGenerator[str]:
    """The chunks as text. The reply is closed if the caller stops early."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        async for part in parts:
            yield decoder.decode(part)
    finally:
        await _close(parts)


async def _close(parts: Any) -> None:
    await (parts.close() if hasattr(parts, "close") else parts.aclose())
