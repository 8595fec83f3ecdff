"""Values of literals: text becomes typed parameters.

Source: OData ABNF, section 7; rules of promotion: Part 2, section 5.1.1.16.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import isinf
from typing import NoReturn
from uuid import UUID

from keyrack.api.odata.ast import Literal, LiteralKind
from keyrack.api.odata.cursor import INVALID, LONGEST_MESSAGE, NOT_SUPPORTED
from keyrack.api.odata.plan import Edm, Null, PlanParameter, Value
from keyrack.core import errors
from keyrack.core.error_codes import FieldError
from keyrack.core.errors import BadRequest

INT32 = 2**31
INT64 = 2**63
NUMERIC = (Edm.INT32, Edm.INT64, Edm.DECIMAL, Edm.DOUBLE)
INTEGERS = (Edm.INT32, Edm.INT64)
DATE_TIMES = (Edm.DATE_TIME, Edm.WALL_CLOCK)

_DATE_TIME = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|([-+ ])(\d\d):(\d\d))?",
    re.ASCII | re.IGNORECASE,
).fullmatch
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)", re.ASCII).fullmatch
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,12}))?)?", re.ASCII).fullmatch
_EXPONENT = re.compile(r"[eE].*").sub


def refuse(message: str, code: str = "", parameter: str | None = None, valid: Sequence[str] = ()) -> NoReturn:
    """Raise `BadRequest` with the message, and with a field error if there is a code.

    A long message, which may quote a long path, is cut.
    """
    short_message = message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "..."
    fault = FieldError(code, short_message, parameter=parameter, valid=tuple(valid))
    raise BadRequest(INVALID.format(fault=short_message), errors=[fault] if code else ())


class UnknownName(BadRequest):
    """400 for an unknown name; `errors` has its position and the valid names."""

    @classmethod
    def of(cls, fault: FieldError) -> UnknownName:
        """The error with this one field error."""
        return cls(INVALID.format(fault=fault.detail), errors=[fault])

    def explained(self, sentence: str) -> UnknownName:
        """The error with an additional sentence, unless it already has it."""
        (fault,) = self.errors
        return self if sentence in fault.detail else self.of(replace(fault, detail=f"{fault.detail} {sentence}"))


def unknown_name(detail: str, position: int, valid: Sequence[str]) -> UnknownName:
    """The error for the name at the position of the option's text; `valid` are the valid names."""
    return UnknownName.of(FieldError("unknown", detail, position=position, valid=tuple(valid)))


def with_parameter(refusal: BadRequest, parameter: str) -> BadRequest:
    """Add this query option or alias to each field error that names none."""
    refusal.errors = tuple([replace(fault, parameter=fault.parameter or parameter) for fault in refusal.errors])
    return refusal


def refuse_unsupported(what: str) -> NoReturn:
    """Raise `NotImplemented`: `what` is well-formed, but not supported."""
    raise errors.NotImplemented(NOT_SUPPORTED.format(feature=what[:LONGEST_MESSAGE]))


def parameter(literal: Literal, digits: int) -> PlanParameter | Null:
    """The value of a literal alone. `digits` is the maximum of a number. Raises `BadRequest`."""
    kind, text, _ = literal
    if kind is LiteralKind.STRING:
        return PlanParameter(Edm.STRING, text)
    if kind is LiteralKind.INTEGER:
        return _integer(text, digits)
    if kind is LiteralKind.NULL:
        return Null()
    if kind is LiteralKind.BOOLEAN:
        return PlanParameter(Edm.BOOLEAN, text == "true")
    if kind is LiteralKind.DECIMAL:
        _check_digits(text, digits)
        return PlanParameter(Edm.DECIMAL, Decimal(text))
    if kind is LiteralKind.DOUBLE:
        return PlanParameter(Edm.DOUBLE, _double(text, digits))
    if kind is LiteralKind.DATE_TIME:
        return PlanParameter(Edm.DATE_TIME, date_time(text))
    if kind is LiteralKind.WALL_CLOCK:
        return PlanParameter(Edm.WALL_CLOCK, _wall_clock(text))
    if kind is LiteralKind.DATE:
        return PlanParameter(Edm.DATE, _date(text))
    if kind is LiteralKind.TIME:
        return PlanParameter(Edm.TIME, _time(text))
    if kind is LiteralKind.GUID:
        return PlanParameter(Edm.GUID, UUID(text))
    refuse(f"The literal '{text[:50]}' cannot be used here.")


def check_offset(value: Value) -> None:
    """Raise `BadRequest` for a date-time literal without offset.

    It is only valid beside a wall clock time.
    """
    if isinstance(value, PlanParameter) and value.type is Edm.WALL_CLOCK:
        written = value.raw.replace(tzinfo=None).isoformat() if isinstance(value.raw, datetime) else value.raw
        refuse(f"The date-time '{written}' has no offset. Add one, such as Z or +01:00.", "wrong-form")


def _integer(text: str, digits: int) -> PlanParameter:
    _check_digits(text, digits)
    number = int(text)
    if -INT32 <= number < INT32:
        return PlanParameter(Edm.INT32, number)
    if -INT64 <= number < INT64:
        return PlanParameter(Edm.INT64, number)
    return PlanParameter(Edm.DECIMAL, Decimal(number))


def _check_digits(text: str, digits: int) -> None:
    if len(text) > digits and sum(map(str.isdigit, _EXPONENT("", text))) > digits:
        refuse(f"A number has more digits than the limit of {digits}.")


def _double(text: str, digits: int) -> float:
    if text in ("NaN", "INF", "-INF"):
        return float(text.replace("INF", "inf"))
    _check_digits(text, digits)
    number = float(text)
    if isinf(number):
        refuse(f"The number '{text[:50]}' is out of range.")
    return number


def date_time(text: str) -> datetime:
    """The instant with its written offset. Raises `BadRequest`, also without an offset."""
    match = _DATE_TIME(text)
    if match is None or match[8] is None:
        if match is None and _DATE(text):
            return midnight(_date(text))
        refuse(f"'{text[:50]}' is not a date-time with an offset, such as 2026-01-31T08:00:00Z.", "wrong-form")
    return _existing(match)


def _wall_clock(text: str) -> datetime:
    """A local wall clock time as if it were UTC, ignoring an offset. Raises `BadRequest`."""
    match = _DATE_TIME(text)
    if match is None:
        if _DATE(text):
            return midnight(_date(text))
        refuse(f"'{text[:50]}' is not a date-time, such as 2026-01-31T08:00:00.", "wrong-form")
    return _existing(match).replace(tzinfo=UTC)


def _existing(match: re.Match[str]) -> datetime:
    year, month, day, hour, minute, second, fraction, _, sign, offset_hours, offset_minutes = match.groups()
    try:
        offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
        zone = timezone(-offset if sign == "-" else offset)
        time = datetime(int(year), int(month), int(day), int(hour), int(minute), tzinfo=zone)
        time += timedelta(seconds=int(second or 0), microseconds=int((fraction or "0").ljust(6, "0")[:6]))
        time.astimezone(UTC)  # or it is outside of the years 1 to 9999 there
    except (ValueError, OverflowError):
        refuse(f"The date-time '{match[0][:50]}' does not exist or is out of range.")
    return time


def _date(text: str) -> date:
    match = _DATE(text)
    if match is None:
        refuse(f"'{text[:50]}' is not a date, such as 2026-01-31.", "wrong-form")
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except (ValueError, OverflowError):
        refuse(f"The date '{text[:50]}' does not exist or is out of range.")


def _time(text: str) -> time:
    match = _TIME(text)
    if match is None or match[3] == "60":
        refuse(f"'{text[:50]}' is not a time of day, such as 08:00:00.", "wrong-form")
    return time(int(match[1]), int(match[2]), int(match[3] or 0), int((match[4] or "0").ljust(6, "0")[:6]))


def midnight(day: date) -> datetime:
    """A date as a date-time: midnight UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def converted(constant: PlanParameter, to: Edm) -> PlanParameter | None:
    """The constant converted to `to`, the type of the other side; None if that is impossible.

    A quoted literal becomes a date-time, a date or a guid; a date becomes a date-time; a date-time beside a wall clock
    time becomes the local time; a number becomes a Double. Raises `BadRequest` for text in another format.
    """
    kind, value = constant.type, constant.raw
    if kind is to:
        return constant
    if kind is Edm.STRING and isinstance(value, str):
        if to is Edm.DATE_TIME:
            return constant.turned(to, date_time(value))
        if to is Edm.WALL_CLOCK:
            return constant.turned(to, _wall_clock(value))
        if to is Edm.DATE:
            return constant.turned(to, _date(value))
        if to is Edm.GUID:
            try:
                return constant.turned(to, UUID(value))
            except ValueError:
                refuse(f"'{value[:50]}' is not a GUID.", "wrong-form")
    if kind is Edm.DATE and to in (Edm.DATE_TIME, Edm.WALL_CLOCK) and isinstance(value, date):
        return constant.turned(to, midnight(value))
    if kind is Edm.DATE_TIME and to is Edm.WALL_CLOCK and isinstance(value, datetime):
        return constant.turned(to, value.replace(tzinfo=UTC))
    if kind in NUMERIC and to is Edm.DOUBLE and isinstance(value, int | Decimal):
        return constant.turned(to, float(value))
    return None
