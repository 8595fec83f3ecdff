"""Cache of compiled filters by shape.

Filters of the same shape differ only in literals, and share a statement.

Programs repeat the same query with another id, plate or time. The result for one text is cached, with the places of the
literals whose value was never inspected (`plan.LiteralOrigin`). For the next text, only these are parsed. An inspected
literal, such as an enumeration member or a divisor, is part of the shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from keyrack.api.odata import tokens
from keyrack.api.odata.literal_values import INT32, converted, date_time
from keyrack.api.odata.plan import Edm, LiteralOrigin, PlanParameter
from keyrack.api.odata.statement import Query
from keyrack.core.errors import BadRequest

MADE = 2_000  # maximum cached entries per process; above it, the cache is emptied
DIGITS = 18  # maximum digits of an integer, so that it has 64 bits

# Literals at operand positions, unless adjacent characters may belong to them
_SPLIT = re.compile(
    r"('[^']*(?:''[^']*)*'"
    rf"|(?<![\w.+\-:/@#$'])(?:{tokens.UTC}|{tokens.GUID}|[0-9]{{1,{DIGITS}}})(?![\w.+\-:'/(]))"
).split

Typed = tuple[Edm, object]


class LiteralSlots(NamedTuple):
    """The replaceable literals of a filter, and the text between them."""

    shape: str
    texts: Sequence[str]
    kinds: Sequence[str]
    pieces: Sequence[str]  # the text between literals, each followed by the kind of a literal, except the last


def literals(text: str) -> LiteralSlots:
    """The literals of a filter without U+0000."""
    pieces = _SPLIT(text)
    texts = pieces[1::2]
    kinds = pieces[1::2] = [_kind(literal) for literal in texts]
    return LiteralSlots("".join(pieces), texts, kinds, pieces)


def _kind(literal: str) -> str:
    if literal[0] == "'":
        return "\0s"
    if literal.isdigit():
        return "\0n"
    return "\0g" if literal[8] == "-" else "\0t"


def _text(literal: str) -> Typed:
    return Edm.STRING, literal[1:-1].replace("''", "'")


def _number(literal: str) -> Typed:
    number = int(literal)
    return (Edm.INT32 if number < INT32 else Edm.INT64), number


def _time(literal: str) -> Typed:
    return Edm.DATE_TIME, date_time(literal)


def _guid(literal: str) -> Typed:
    return Edm.GUID, UUID(literal)


_READ: dict[str, Callable[[str], Typed]] = {"\0s": _text, "\0n": _number, "\0t": _time, "\0g": _guid}


class _Free(NamedTuple):
    """A literal that may have another value, and its parameter."""

    place: int  # the index of the literal
    number: int  # the index of its parameter
    type: Edm  # the type of the parameter


class _Shape:
    """The readers of a shape's literals, and its cached results.

    The reader is None for a literal that is part of the shape. The results depend on the literals of the shape, and on
    the types of the others.
    """

    __slots__ = ("queries", "readers")

    def __init__(self, readers: Sequence[Callable[[str], Typed] | None]) -> None:
        self.readers = readers
        self.queries: dict[tuple[object, ...], tuple[Query, Sequence[_Free]]] = {}


class Shapes:
    """Cached results by the filter's shape and the `context` that a statement depends on."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Hashable, str], _Shape] = {}
        self._query_count = 0

    def find(self, context: Hashable, slots: LiteralSlots) -> Query | None:
        """The cached result for a text's shape, with the text's literals, or None."""
        shape = self._shapes.get((context, slots.shape))
        if shape is None:
            return None
        try:
            read: list[tuple[Any, object]] = [
                reader(literal) if reader is not None else (literal, None)
                for reader, literal in zip(shape.readers, slots.texts, strict=True)
            ]
            found_query = shape.queries.get(tuple([value for value, _ in read]))
            if found_query is None:
                return None
            query, free = found_query
            args = list(query.args)
            for place, number, to in free:
                args[number] = _converted(read[place], to)
        except BadRequest:  # rejected later, with full context
            return None
        return query._replace(args=tuple(args))

    def learn(self, context: Hashable, slots: LiteralSlots, query: Query, origins: Sequence[LiteralOrigin]) -> None:
        """Cache the result for a text."""
        free = _free(slots, query, origins)
        readers = [_READ[kind] if place in free else None for place, kind in enumerate(slots.kinds)]
        if self._query_count >= MADE:
            self._shapes, self._query_count = {}, 0
        shape = self._shapes.get((context, slots.shape))
        if shape is not None:
            readers = [old and new for old, new in zip(shape.readers, readers, strict=True)]
        if shape is None or readers != shape.readers:  # a literal that is no longer free must not be treated as free
            shape = self._shapes[context, slots.shape] = _Shape(readers)
        values = [
            literal if reader is None else reader(literal)[0]
            for reader, literal in zip(readers, slots.texts, strict=True)
        ]
        shape.queries[tuple(values)] = (
            query,
            [free[place] for place, reader in enumerate(readers) if reader is not None],
        )
        self._query_count += 1


def _free(slots: LiteralSlots, query: Query, origins: Sequence[LiteralOrigin]) -> dict[int, _Free]:
    """The literals that may have another value, by their index."""
    by_start = {origin.at: origin for origin in origins}
    free: dict[int, _Free] = {}
    start = 0
    for place, (literal, kind) in enumerate(zip(slots.texts, slots.kinds, strict=True)):
        start += len(slots.pieces[2 * place])
        origin = by_start.get(start)
        start += len(literal)
        if origin is None or origin.fixed or origin.number is None:
            continue
        read = _READ[kind](literal)
        if read[0] is origin.type and _converted(read, origin.written) == query.args[origin.number]:
            free[place] = _Free(place, origin.number, origin.written)
    return free


def _converted(read: Typed, to: Edm) -> object:
    """The value converted to the type `to`. Raises `BadRequest`."""
    type_, value = read
    if type_ is to:
        return value
    turned = converted(PlanParameter(type_, value), to)
    return None if turned is None else turned.raw
