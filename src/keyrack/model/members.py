"""In charge of members that a body should not have: found, named, and with the one that was probably meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, cast

from pydantic import TypeAdapter

from keyrack.reasons import Reason

UNKNOWN_MEMBERS = Reason("unknown-members", "Couldn't {what}. {members}")

NAMED = 5  # members that a refusal names, at most
LONGEST = 60  # characters of a name that a refusal shows
LOOKED_AT = 1_000  # unknown members among which those are: the same one comes again in each step of a patch


def unknown(adapter: TypeAdapter[Any], body: bytes) -> list[tuple[str, list[str]]]:
    """The members of a valid body that its form does not know, each with those that it knows at this place."""
    schema = adapter.json_schema()
    return list(islice(_unknown(json.loads(body), schema, schema.get("$defs", {})), LOOKED_AT))


def _unknown(value: object, schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    if "$ref" in schema:
        schema = defs[schema["$ref"].rsplit("/", 1)[-1]]
    for choice in schema.get("anyOf", ()):
        if "$ref" in choice or "properties" in choice:
            yield from _unknown(value, choice, defs)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in cast("list[object]", value):
            yield from _unknown(item, schema["items"], defs)
    known: Mapping[str, Any] | None = schema.get("properties")
    if isinstance(value, dict) and known is not None:
        for name, member in cast("dict[str, object]", value).items():
            if name in known:
                yield from _unknown(member, known[name], defs)
            else:
                yield name, list(known)


def refusal(what: str, members: Iterable[tuple[str, list[str]]]) -> Reason:
    """Why they are refused: `Couldn't <what>. There is no member ende. Did you mean end?`"""
    told: list[str] = []
    for name, known in list(dict(members).items())[:NAMED]:
        lower = {one.lower(): one for one in known}
        meant = get_close_matches(name[:LONGEST].lower(), lower, 1)
        told.append(f"There is no member {name[:LONGEST]}." + (f" Did you mean {lower[meant[0]]}?" if meant else ""))
    return UNKNOWN_MEMBERS.format(what=what, members=" ".join(told))
