"""Request bodies: types of their properties, JSON Patch, and validation errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from keyrack.api.schema import event_types, unknown_members
from keyrack.api.schema.field_errors import MAP_KEY, at, faults, placed, sentence
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest
from keyrack.core.text import FREE_TEXT, LONGEST_ADDRESS, NOT_BLANK, email_address, nfc, without_byte_order_mark

# RFC 3339, section 5.6; a wall clock time may lack the offset
_TIME = r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
_OFFSET = r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
MOMENT = re.compile(_TIME + _OFFSET, re.ASCII | re.IGNORECASE).fullmatch
WALL_CLOCK = re.compile(_TIME + _OFFSET + "?", re.ASCII | re.IGNORECASE).fullmatch
INVALID_MOMENT = "A time must have the format of RFC 3339, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00."
INVALID_WALL_CLOCK = (
    "A time must have the format of RFC 3339, with or without an offset, such as 2026-01-31T08:00:00 or"
    " 2026-01-31T08:00:00Z."
)
LONGEST_TIME = 250  # characters of a time that is returned as it was sent

INVALID_MEMBERS = ErrorCode(
    "invalid-members",
    "Couldn't {what}. No valid {members} provided.",
    "Correct the properties that `errors` points to.",
)
INVALID_JSON = ErrorCode(
    "invalid-json",
    "Couldn't {what}. The body is not valid JSON: {fault}.",
    "Send valid JSON in UTF-8; `errors` shows the position.",
)
WRONG_FORM = ErrorCode(
    "wrong-form-of-body",
    "Couldn't {what}. The body must be {form}.",
    "Send the body that the API reference shows for this endpoint.",
)
TOO_MANY_ERRORS = ErrorCode(
    "too-many-errors",
    "Couldn't {what}. The body has more than {most} errors.",
    "Correct the body; a repeated error counts each time.",
)
NO_STEPS = ErrorCode("no-steps", "Couldn't {what}. The patch has no steps.", "Send at least one step.")
TOO_MANY_STEPS = ErrorCode(
    "too-many-steps",
    "Couldn't {what}. A patch has at most {most} steps.",
    "Send one step for each property that changes.",
)


class Body(BaseModel):
    """A JSON object with strict types, which ignores unknown properties."""

    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=to_camel)


class StrictBody(Body):
    """A body that grants or reports access: a misspelt property must not mean "unlimited"."""

    model_config = ConfigDict(extra="forbid")


def _moment(value: object) -> datetime:
    try:
        return moment(value if isinstance(value, str) else "")
    except ValueError:
        raise PydanticCustomError("moment", INVALID_MOMENT) from None


def moment(text: str) -> datetime:
    """The instant of an RFC 3339 time, in UTC, truncated to microseconds. Raises `ValueError`.

    A leap second, 23:59:60 at the end of a month in UTC, becomes the start of the next minute, as in PostgreSQL.
    """
    if not MOMENT(text):
        raise ValueError(INVALID_MOMENT)
    return _read(text, is_instant=True)


def wall_clock(text: str) -> datetime:
    """A local wall clock time, ignoring its offset, as if it were UTC: so readings can be compared and ordered.

    The format is RFC 3339, with or without an offset. Raises `ValueError`.
    """
    if not WALL_CLOCK(text):
        raise ValueError(INVALID_WALL_CLOCK)
    return _read(text, is_instant=False)


def _read(text: str, *, is_instant: bool) -> datetime:
    is_leap = text[17:19] == "60"
    time = datetime.fromisoformat((text[:17] + "59" + text[19:] if is_leap else text).upper())
    try:
        time = time + timedelta(seconds=1) if is_leap else time
        instant = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)  # must be valid in any case
        if is_leap and time.tzinfo and (instant.day, instant.hour, instant.minute) != (1, 0, 0):
            raise ValueError("leap seconds end a month in UTC")  # RFC 3339, section 5.7
        return instant if is_instant else time.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("the year lies outside 0001 to 9999") from None


def format_timestamp(time: datetime) -> str:
    """yyyy-MM-ddTHH:mm:ssZ, the spec's format, without a fraction."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_timestamp_exact(time: datetime) -> str:
    """The same with its fraction, for positions at which a reader continues."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _wall_clock(value: object) -> str:
    try:
        if isinstance(value, str) and len(value) <= LONGEST_TIME:
            wall_clock(value)
            return value
    except ValueError:
        pass
    raise PydanticCustomError("wall_clock", INVALID_WALL_CLOCK)


INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
EXACT = 2**53  # from here on, floats cannot represent every integer


def whole_number(value: object) -> object:
    """The integer of a number such as 2100.0 (JSON Schema 2020-12, section 4.2.3); other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT else value


def _id(number: int) -> int:
    if number < 1:
        raise PydanticCustomError("not_positive", "An id must be positive")
    return number


def _kind(name: str) -> str:
    try:
        return event_types.check(name)
    except ValueError as error:
        raise PydanticCustomError("no_kind", "{sentence}", {"sentence": str(error)}) from None


def int32_from(low: int, high: int) -> Any:
    """The limits of an integer of 32 bits. Further limits of an `Int32` would not be in its JSON schema."""
    return Field(ge=low, le=high, json_schema_extra={"format": "int32"})


WHOLE_NUMBER = BeforeValidator(whole_number)
Int32 = Annotated[int, int32_from(-INT32_MAX - 1, INT32_MAX), WHOLE_NUMBER]
Id = Annotated[Int32, AfterValidator(_id), Field(json_schema_extra={"minimum": 1})]  # otherwise invalid
# After the constraints, which OpenAPI would not include otherwise; it runs before they are checked
IN_NFC = BeforeValidator(lambda value: nfc(value) if isinstance(value, str) else value)
Text = Annotated[str, Field(max_length=250, pattern=FREE_TEXT), IN_NFC]
LongText = Annotated[str, Field(max_length=4000, pattern=FREE_TEXT), IN_NFC]
ExactText = Annotated[str, Field(pattern=r"^[^\x00]*$")]  # stored as sent: a password, or an address
AnyText = Annotated[str, Field(pattern=FREE_TEXT), IN_NFC]  # a patch's value: its member limits the length
Name = Annotated[str, Field(max_length=250, pattern=NOT_BLANK), IN_NFC]
EmailAddress = Annotated[
    str,
    AfterValidator(email_address),
    WithJsonSchema({"type": "string", "format": "email", "maxLength": LONGEST_ADDRESS}),
]
Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
WholeSecond = Annotated[Moment, AfterValidator(lambda time: time.replace(microsecond=0))]
WallClock = Annotated[
    str,
    BeforeValidator(_wall_clock),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": LONGEST_TIME,
            "description": (
                "A local wall clock time in the format of RFC 3339, with or without an offset. Returned as it was sent."
            ),
        }
    ),
]
Kind = Annotated[str, AfterValidator(_kind), WithJsonSchema({"type": "string", "enum": list(event_types.TAKEN)})]
Latitude = Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False, json_schema_extra={"format": "double"})]
Longitude = Annotated[float, Field(ge=-180, le=180, allow_inf_nan=False, json_schema_extra={"format": "double"})]


class PatchStep(Protocol):
    """One operation of a JSON Patch (RFC 6902), as far as the spec allows it."""

    @property
    def op(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def model_fields_set(self) -> set[str]: ...


ERRORS = 200  # maximum processed errors of a body: each step of a patch has a few
METADATA = "metadata"  # the member whose keys clients choose
STEPS = 50  # maximum steps of a patch, more than there are members to change
VALUE_MISSING = "A `replace` step must have a `value`."
NOT_REMOVABLE = "`{name}` is required, so it cannot be removed."
Step = TypeVar("Step")
Patch = Annotated[list[Step], Field(max_length=STEPS)]


def apply_patch(steps: Sequence[PatchStep], action: str, required: Collection[str]) -> dict[str, Any]:
    """The result of a patch: member -> value, None for a removed one.

    A later step overrides an earlier one. Raises `BadRequest` for these patches:

    - It has no steps.
    - It removes a `required` member.
    - A `replace` has no `value` (RFC 6902, section 4.3): as null, it would make an assignment unlimited.
    """
    if not steps:
        fault = FieldError("too-short", "The patch has no steps.", "")
        raise BadRequest(NO_STEPS.format(what=action), errors=[fault])
    for number, step in enumerate(steps):
        if step.op == "replace" and "value" not in step.model_fields_set:
            reason = invalid_member(action, step.path[1:], hint=VALUE_MISSING)
            raise BadRequest(reason, errors=[FieldError("missing", VALUE_MISSING, f"/{number}/value")])
    last_steps = {step.path[1:]: step for step in steps}
    removed = [name for name, step in last_steps.items() if step.op == "remove" and name in required]
    if removed:
        field_errors = [FieldError("missing", NOT_REMOVABLE.format(name=name), at(steps, name)) for name in removed]
        raise BadRequest(invalid_member(action, *removed), errors=field_errors)
    return {name: step.value if step.op == "replace" else None for name, step in last_steps.items()}


def validate_body(
    adapter: TypeAdapter[Any],
    body: bytes,
    action: str,
    *,
    strict: bool = False,
    let_through: Collection[str] = (),
    patch: Sequence[PatchStep] = (),
) -> Any:
    """The validated body, as in `read_body`."""
    return read_body(adapter, body, action, strict=strict, let_through=let_through, patch=patch)[0]


def read_body(
    adapter: TypeAdapter[Any],
    body: bytes,
    action: str,
    *,
    strict: bool = False,
    let_through: Collection[str] = (),
    patch: Sequence[PatchStep] = (),
) -> tuple[Any, object]:
    """The validated body, and the parsed JSON with numbers as strings.

    `strict` rejects unknown properties, even if the type ignores them. Those of `let_through` at the top of the body
    are ignored. Errors of a body that results from a `patch` point to its steps. Raises `BadRequest`: `Couldn't
    <action>. No valid <members> provided.`
    """
    body = without_byte_order_mark(body)
    if not body.strip():
        raise BadRequest(
            INVALID_JSON.format(what=action, fault="the body is empty"),
            errors=[FieldError("invalid-json", "The body is empty.", "")],
        )
    try:
        value = adapter.validate_json(body)
    except ValidationError as error:
        if error.error_count() > ERRORS:  # processing each would take longer than finding them
            raise BadRequest(TOO_MANY_ERRORS.format(what=action, most=ERRORS)) from None
        problems = placed(adapter, error.errors(include_url=False))
        field_errors = faults(adapter, problems)
        if len(field_errors) < len(problems):  # some properties are unknown
            document, _ = _parsed(body, action)
            raise unknown_members.refusal(action, unknown_members.unknown(adapter, document), field_errors) from None
        if patch:
            field_errors = [
                replace(fault, pointer=at(patch, (fault.pointer or "/").split("/")[1])) for fault in field_errors
            ]
        raise BadRequest(_explained(problems, action), errors=field_errors) from None
    document, repeated = _parsed(body, action)
    if strict:
        unknown = [
            member
            for member in unknown_members.unknown(adapter, document)
            if len(member.place) > 1 or member.name not in let_through
        ]
        if unknown:
            raise unknown_members.refusal(action, unknown)
    if repeated is not None:
        reason = unknown_members.REPEATED.format(what=action, name=repeated[: unknown_members.LONGEST])
        detail = f"The property '{repeated[: unknown_members.LONGEST]}' is given more than once."
        raise BadRequest(reason, errors=[FieldError("repeated", detail)])
    return value, document


def _parsed(body: bytes, action: str) -> tuple[object, str | None]:
    try:
        return unknown_members.parse(body)
    except ValueError as error:
        fault = FieldError("invalid-json", f"{error}.", "")
        raise BadRequest(INVALID_JSON.format(what=action, fault=error), errors=[fault]) from None


def invalid_member(action: str, *members: str, hint: str = "") -> ErrorCode:
    """Why a body with these members is refused (design: patterns of messages); the hint is a whole sentence."""
    listed = members[0] if len(members) == 1 else ", ".join(members[:-1]) + " and " + members[-1]
    reason = INVALID_MEMBERS.format(what=action, members=listed)
    return reason.with_text(f"{reason} {hint}") if hint else reason


def _explained(problems: Sequence[Any], action: str) -> ErrorCode:
    first = problems[0]
    if first["type"] == "json_invalid":
        return INVALID_JSON.format(what=action, fault=first["msg"].removeprefix("Invalid JSON: "))
    if first["type"] == "too_long" and not first["loc"]:
        return TOO_MANY_STEPS.format(what=action, most=STEPS)
    named = list(dict.fromkeys(name for problem in problems if (name := _member(problem["loc"]))))
    if not named:
        return WRONG_FORM.format(what=action, form=_form(first))
    return invalid_member(action, *named[:MAX_NAMED], hint=" ".join(_hints(problems, named[:MAX_NAMED])))


MAX_NAMED = 5  # members that the text of an error names; its field errors have all


def _hints(problems: Sequence[Any], named: Sequence[str]) -> Iterator[str]:
    """The sentences of the message: one for each member, and one for all times."""
    seen = set[str]()
    for problem in problems:
        name, kind = _member(problem["loc"]), problem["type"]
        if kind in ("moment", "wall_clock") and kind not in seen:
            yield problem["msg"]
        elif kind in HINTED and name in named and name not in seen:
            yield sentence(problem)
        seen |= {kind, name or ""}


# Kinds of error whose sentence is appended to the text. For ids, the design fixes the text alone
HINTED = {
    "string_too_long", "greater_than_equal", "less_than_equal", "past", "too_long", "literal_error",
    "enum", "no_kind", "no_scope", "base64url", "url", MAP_KEY, "map_too_large",
}  # fmt: skip


def _member(location: tuple[int | str, ...]) -> str | None:
    names = [part for part in location if isinstance(part, str)]
    if METADATA in names:  # clients name its keys
        return METADATA
    return names[-1] if names else None


def _form(problem: Any) -> str:
    if problem["loc"]:
        return "a JSON array of objects"
    return "a JSON array" if problem["type"] == "list_type" else "a JSON object"
