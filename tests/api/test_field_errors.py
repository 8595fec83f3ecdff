"""Errors in request bodies: codes, details and messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.schema.request_body import validate_body
from keyrack.core.error_codes import FAULTS, FieldError
from keyrack.core.errors import BadRequest
from keyrack.http.routes import ALL

Json = dict[str, Any]
Wrap = Callable[[Any], Any]

BODIES = {f"{row.method} {row.path}": row for row in ALL if isinstance(row.body, JsonBody)}
# Values of every JSON type. Texts have a wrong format, a wrong length, or a time that has passed
VALUES: list[Any] = [
    None, True, 7, 1.5, 10**30, [], {}, "", "?", "\0", "A" * 5_000, "A" * 42 + "B", "2020-01-01T00:00:00Z",
]  # fmt: skip


def json_type(value: Any) -> str:
    """The type as JSON Schema names it."""
    if isinstance(value, float):
        return "number"
    types = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    return types.get(type(value), "null")


def resolved(whole: Json, schema: Json) -> Json:
    return whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema


def choices(whole: Json, schema: Json) -> list[Json]:
    """The schemas that a value may fulfil."""
    schema = resolved(whole, schema)
    return [each for part in schema.get("anyOf", ()) for each in choices(whole, part)] or [schema]


def with_member(wrap: Wrap, constants: Json, name: str, value: Any) -> Any:
    return wrap({**constants, name: value})


def places(whole: Json, schema: Json, pointer: str = "", wrap: Wrap = lambda value: value) -> Iterator[Any]:
    """Each place of a body.

    A place is its JSON Pointer, its schemas, and a function that makes a body with a given value there.
    """
    allowed = choices(whole, schema)
    yield pointer, allowed, wrap
    forms = [resolved(whole, form) for choice in allowed for form in choice.get("oneOf", ())]
    for each in [*allowed, *forms]:
        members = {name: resolved(whole, member) for name, member in each.get("properties", {}).items()}
        constants = {name: member["const"] for name, member in members.items() if "const" in member}
        for name, member in members.items():
            yield from places(whole, member, f"{pointer}/{name}", partial(with_member, wrap, constants, name))
        if "items" in each:
            yield from places(whole, each["items"], f"{pointer}/0", lambda value: wrap([value]))


def errors(row: Endpoint, body: Any) -> tuple[FieldError, ...]:
    assert row.body_adapter is not None
    try:
        validate_body(row.body_adapter, json.dumps(body).encode(), "try")
    except BadRequest as refusal:
        return tuple(refusal.errors)
    return ()


def expected(allowed: list[Json], value: Any) -> set[str]:
    """The codes that fit an invalid value of these schemas."""
    if any(schema.keys() & {"enum", "const"} for schema in allowed):
        return {"not-one-of", "wrong-type"} - ({"wrong-type"} if isinstance(value, str) else set())
    types = {schema.get("type", "object") for schema in allowed}
    fits = json_type(value) in types or (json_type(value) == "integer" and "number" in types)
    return set(FAULTS) - {"wrong-type"} if fits else {"wrong-type"}


def test_only_a_wrong_type_is_called_one() -> None:
    schemas = {name: row.body_adapter.json_schema() for name, row in BODIES.items() if row.body_adapter}
    wrong = {
        f"{name} {pointer} = {json.dumps(value)[:40]}: {error.code}, {error.detail}"
        for name, whole in schemas.items()
        for pointer, allowed, wrap in places(whole, whole)
        for value in VALUES
        for error in errors(BODIES[name], wrap(value))
        if error.pointer == pointer and error.code not in expected(allowed, value)
        if (name, pointer, value) != ("PUT /webhooks", "/url", None)  # valid only for a pull webhook
    }
    assert not wrong


@pytest.mark.parametrize(
    ("name", "body", "code", "detail"),
    [
        ("PUT /clients", {"scopes": ["cars:raed"]}, "not-one-of", "'cars:raed' is not a scope of machine clients."),
        ("PUT /clients", {"expires": "2020-01-01T00:00:00Z"}, "out-of-range",
         "`expires` must be in the future, but is '2020-01-01T00:00:00Z'."),
        ("PUT /clients", {"expires": 7}, "wrong-type", "`expires` must be a time in the format of RFC 3339, such as"),
        ("PUT /managers", {"role": "owner"}, "not-one-of",
         "`role` must be 'Owner', 'Manager', 'Dispatcher', 'Technician', 'Auditor' or 'Viewer', but is 'owner'."),
        ("POST /batch", {"kind": None}, "not-one-of",
         "`kind` must be 'assignments', 'cars', 'groups' or 'users', but is null."),
        ("PUT /me/preferences", {"timeZone": "Europe/Berln"}, "wrong-form",
         "'Europe/Berln' is not a time zone of the IANA database. Did you mean 'Europe/Berlin'?"),
        ("PUT /me/preferences", {"timeZone": "?"}, "wrong-form",
         "'?' is not a time zone of the IANA database. Send a name such as 'Europe/Berlin'."),
        ("POST /sdk/time", {"nonce": "AA=="}, "wrong-form",
         "`nonce` must be base64url (RFC 4648, section 5) without padding, but contains '='."),
        ("POST /sdk/time", {"nonce": "AAAAB"}, "wrong-form", "`nonce` must be base64url (RFC 4648, section 5) without"
         " padding, but ends after 5 characters, in the middle of a byte."),
        ("POST /sdk/time", {"nonce": "AB"}, "wrong-form", "`nonce` must be base64url (RFC 4648, section 5) without"
         " padding, but ends with a character whose unused bits are not zero."),
        ("POST /sdk/time", {"nonce": 7}, "wrong-type", "`nonce` must be a string, but is a number."),
        ("PUT /events", {"dateTime": None}, "wrong-type", "`dateTime` must be a time in the format of RFC 3339, with"),
    ],
)  # fmt: skip
def test_an_error_says_what_came_and_what_is_valid(name: str, body: Json, code: str, detail: str) -> None:
    (member,) = body
    (error,) = [error for error in errors(BODIES[name], body) if (error.pointer or "").startswith(f"/{member}")]
    assert error.code == code and error.detail.startswith(detail)
    assert bool(error.valid) == (code == "not-one-of")


def test_the_message_of_a_body_has_the_reason() -> None:
    for name, body, text in (
        ("PUT /clients", {"name": "x", "scopes": ["x"]}, "No valid scopes provided. 'x' is not a scope of machine"),
        ("PUT /clients", {"name": "x", "scopes": ["cars:read"], "expires": "2020-01-01T00:00:00Z"},
         "No valid expires provided. `expires` must be in the future, but is '2020-01-01T00:00:00Z'."),
        ("POST /sdk/time", {"box": "x", "nonce": "="}, "No valid nonce provided. `nonce` must be base64url"),
    ):  # fmt: skip
        adapter = BODIES[name].body_adapter
        assert adapter is not None
        with pytest.raises(BadRequest) as refused:
            validate_body(adapter, json.dumps(body).encode(), "try")
        assert f"Couldn't try. {text}" in str(refused.value.reason)
