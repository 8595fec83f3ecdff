"""Unknown properties of a body, with suggestions for misspelt ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter

from keyrack.api.schema.field_errors import pointer, schema
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest
from keyrack.core.suggestions import did_you_mean

UNKNOWN_MEMBERS = ErrorCode(
    "unknown-members", "Couldn't {what}. {members}", "Remove or rename the properties that `errors` points to."
)

REPEATED = ErrorCode(
    "repeated-members",
    "Couldn't {what}. The property '{name}' is given more than once.",
    "Send each property of an object once.",
)

NAMED = 5  # maximum number of properties in an error message
LONGEST = 60  # maximum characters of a name in an error message
MAX_REPORTED = 50  # maximum number of properties with a place in a problem
MAX_PROCESSED = 1_000  # maximum number of processed unknown properties: a patch may repeat one in each step


class UnknownMember(NamedTuple):
    """An unknown property, and the valid names at its place."""

    name: str
    valid_names: list[str]
    place: tuple[int | str, ...]

    @property
    def error_place(self) -> tuple[int | str, ...]:
        """Its place; that of its object if its name is too long."""
        return self.place if len(self.name) <= LONGEST else self.place[:-1]

    @property
    def message(self) -> str:
        """`There is no property 'ende'. Did you mean 'end'?`"""
        return f"There is no property '{self.name[:LONGEST]}'.{did_you_mean(self.name, self.valid_names)}"


def unknown(adapter: TypeAdapter[Any], document: object) -> list[UnknownMember]:
    """The unknown properties of a parsed valid body."""
    whole = schema(adapter)
    return list(islice(_unknown(document, whole, whole.get("$defs", {}), ()), MAX_PROCESSED))


def parse(body: bytes) -> tuple[object, str | None]:
    """The parsed JSON, and the name of a repeated property, if any (RFC 8259, section 4).

    Numbers stay strings, because only names matter here and long numbers are slow to parse. Raises `ValueError` for NaN
    and Infinity, which the parsers accept and JSON does not have (section 6).
    """
    repeated: list[str] = []

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) < len(pairs) and not repeated:
            repeated.append(next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1))
        return values

    document = json.loads(
        body, object_pairs_hook=members, parse_int=str, parse_float=str, parse_constant=_refuse_constant
    )
    return document, repeated[0] if repeated else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _unknown(
    value: object, schema: Mapping[str, Any], defs: Mapping[str, Any], place: tuple[int | str, ...]
) -> Iterator[UnknownMember]:
    if "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    if "discriminator" in schema:
        schema = _meant(value, schema["discriminator"])
        if "$ref" in schema:
            schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    for choice in schema.get("anyOf", ()):
        if "$ref" in choice or "properties" in choice:
            yield from _unknown(value, choice, defs, place)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(cast("list[object]", value)):
            yield from _unknown(item, schema["items"], defs, (*place, number))
    properties: Mapping[str, Any] | None = schema.get("properties")
    if isinstance(value, dict) and properties is not None:
        for name, member in cast("dict[str, object]", value).items():
            if name in properties:
                yield from _unknown(member, properties[name], defs, (*place, name))
            else:
                yield UnknownMember(name, list(properties), (*place, name))


def _meant(value: object, discriminator: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that the value selects from several forms."""
    name = cast("dict[str, object]", value).get(discriminator["propertyName"]) if isinstance(value, dict) else None
    return (
        {"$ref": discriminator["mapping"][name]} if isinstance(name, str) and name in discriminator["mapping"] else {}
    )


def refusal(action: str, members: Sequence[UnknownMember], others: Iterable[FieldError] = ()) -> BadRequest:
    """The error for a body with unknown members: `Couldn't <action>. There is no property 'ende'. Did you mean 'end'?`

    `others` are the other errors of the body.
    """
    by_name = {member.name: member for member in members}
    sentences = " ".join(member.message for member in list(by_name.values())[:NAMED])
    faults = [
        FieldError("unknown", member.message, pointer(member.error_place), tuple(member.valid_names))
        for member in members[:MAX_REPORTED]
    ]
    return BadRequest(UNKNOWN_MEMBERS.format(what=action, members=sentences), errors=[*faults, *others])
