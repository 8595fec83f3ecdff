"""Query parameters beyond OData: an endpoint's own parameters, and their parsing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from keyrack.api.schema.request_body import INVALID_MOMENT, moment
from keyrack.core.error_codes import EMPTY_RANGE, ErrorCode, FieldError
from keyrack.core.errors import BadRequest
from keyrack.core.suggestions import did_you_mean

INVALID = ErrorCode(
    "invalid-query-parameter",
    "The query parameter {name} is not valid. {hint}",
    "Correct the parameter that `errors` names, and percent-encode its value.",
)
TOO_LONG_RANGE = ErrorCode(
    "time-range-too-long",
    "The time between `from` and `to` is longer than {days} days.",
    "Request a shorter time range, or several ranges one after the other.",
)

BLANKS = " \t"  # ignored around a name and its value, as in OData options
LONGEST_NAME = 50  # maximum characters of a name in an error
DAY = timedelta(days=1)
FIRST, LAST = datetime.min.replace(tzinfo=UTC) + DAY, datetime.max.replace(tzinfo=UTC) - DAY


@dataclass(frozen=True)
class QueryParameter:
    """One parameter. `parse` converts its text, or raises `ValueError` with a whole sentence."""

    name: str
    parse: Callable[[str], Any]
    meaning: str
    schema: Mapping[str, object]  # of its value, for OpenAPI
    valid: tuple[str, ...] = ()  # the valid values, or parts of them
    is_required: bool = False


def a_time(text: str) -> datetime:
    """A time of RFC 3339. Raises `ValueError`."""
    try:
        return moment(text)
    except ValueError:
        raise ValueError(f"{INVALID_MOMENT} Percent-encode it.") from None


def whole_number(text: str) -> int:
    """A number of up to nine digits, at least 1. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise ValueError("The value must be an integer from 1 to 999999999.")
    return int(text)


MOMENT: Mapping[str, object] = {"type": "string", "format": "date-time"}
TIME_RANGE = (
    QueryParameter("from", a_time, "The start of the time range. Default: one day before `to`.", MOMENT),
    QueryParameter(
        "to", a_time, "The end of the time range, exclusive. Default: one day after `from`, or now.", MOMENT
    ),
)


def parse_parameters(
    query: bytes, parameters: Sequence[QueryParameter], *, allows_others: bool = False
) -> dict[str, Any]:
    """The parsed parameters of a query string by name.

    `allows_others` ignores unknown names, for use beside OData options. Raises `BadRequest` for an unknown, repeated or
    invalid parameter, and for a missing required one.
    """
    parameters_by_name = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for name, text in _pairs(query):
        parameter = parameters_by_name.get(name)
        if parameter is None and allows_others:
            continue
        if parameter is None:
            valid = (
                f"The valid parameters are {', '.join(parameters_by_name)}."
                if parameters_by_name
                else "This endpoint has no query parameters."
            )
            _refuse(
                name,
                f"{valid}{did_you_mean(name, parameters_by_name)}",
                "unknown",
                tuple(parameters_by_name),
            )
        if name in values:
            _refuse(name, "The parameter is given more than once.", "repeated")
        try:
            values[name] = parameter.parse(text)
        except ValueError as error:
            _refuse(name, str(error), "not-one-of" if parameter.valid else "wrong-form", parameter.valid)
    for name, parameter in parameters_by_name.items():
        if parameter.is_required and name not in values:
            _refuse(name, "The parameter is missing.", "missing")
    return values


def at_most(values: Mapping[str, Any], name: str, max_value: int) -> int:
    """The number called `name`, at most and by default `max_value`. Raises `BadRequest`."""
    number: int = values.get(name, max_value)
    if number > max_value:
        _refuse(name, f"The value must be at most {max_value}, but is {number}.", "out-of-range")
    return number


def time_range(values: Mapping[str, Any], days: int) -> tuple[datetime, datetime]:
    """The time range of `from` and `to`. A missing end is one day from the other; the default is the last day.

    Raises `BadRequest` for an empty range, and for one of more than so many days.
    """
    since: datetime | None = values.get("from")
    until: datetime | None = values.get("to")
    if until is None:
        until = datetime.now(UTC) if since is None else min(since, LAST) + DAY
    if since is None:
        since = max(until, FIRST) - DAY
    if until <= since:
        raise BadRequest(EMPTY_RANGE, errors=[FieldError("out-of-range", EMPTY_RANGE.text, parameter="to")])
    if until - since > timedelta(days=days):
        reason = TOO_LONG_RANGE.format(days=days)
        raise BadRequest(reason, errors=[FieldError("out-of-range", reason.text, parameter="to")])
    return since, until


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
        return [(name.strip(BLANKS), value.strip(BLANKS)) for name, value in pairs]
    except UnicodeDecodeError:
        _refuse("", "The query string is not UTF-8.", "wrong-form")


def _refuse(name: str, hint: str, code: str, valid: tuple[str, ...] = ()) -> NoReturn:
    shown = name[:LONGEST_NAME]
    raise BadRequest(
        INVALID.format(name=shown, hint=hint), errors=[FieldError(code, hint, parameter=shown, valid=valid)]
    )
