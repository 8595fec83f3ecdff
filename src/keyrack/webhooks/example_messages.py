"""Test messages: the examples of the API reference, marked as tests."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field, TypeAdapter, WithJsonSchema
from pydantic_core import PydanticCustomError

from keyrack.api.schema import event_types
from keyrack.api.schema.event_types import SENT
from keyrack.api.schema.request_body import INT32_MAX, Body, invalid_member, validate_body
from keyrack.core.error_codes import FieldError
from keyrack.core.errors import BadRequest
from keyrack.core.suggestions import did_you_mean
from keyrack.core.text import FREE_TEXT

ACTION = "test webhook"
NO_OPERATION = "00000000-0000-0000-0000-000000000000"
FIXED = ("type", "test", "customerId", "operationId", "data")  # members that a test cannot set
LONGEST = 60  # characters of a given name in an error
MOST_SET = 20  # members that one test sets
LONGEST_TEXT = 1_000  # characters of a text that a test sets
Value = str | int | float | bool | None


def _type(name: object) -> object:
    if isinstance(name, str) and name not in SENT:
        if name in event_types.TAKEN:
            raise PydanticCustomError(
                "no_kind", "{sentence}", {"sentence": f"{name!r} is a wildcard. Use an event type."}
            )
        given = name[:LONGEST]
        hint = did_you_mean(given, SENT) or " `GET /webhooks/kinds` lists the event types."
        raise PydanticCustomError("no_kind", "{sentence}", {"sentence": f"{given!r} is not an event type.{hint}"})
    return name


class TestMessage(Body):
    """A test in the form of an event type. `set` replaces members of the example."""

    __test__ = False  # for pytest

    type: Annotated[str, BeforeValidator(_type), WithJsonSchema({"type": "string", "enum": list(SENT)})]
    set: Annotated[dict[str, Value], Field(max_length=MOST_SET)] = Field(default_factory=dict[str, Value])


ADAPTER = TypeAdapter(TestMessage)


def parse(body: bytes) -> TestMessage | None:
    """The test in a JSON object with `type`; None for other bodies. Raises `BadRequest`.

    Earlier releases ignored every body, so a body of another form is no error.
    """
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "type" not in document:
        return None
    return validate_body(ADAPTER, body, ACTION)


def message_text(test: TestMessage, example: Mapping[str, Any], customer: int) -> str:
    """The JSON text of a test message. Raises `BadRequest` for a member that the message does not have."""
    message: dict[str, Any] = {"type": test.type, "test": True, **example, "customerId": customer}
    if "operationId" in message:
        message["operationId"] = NO_OPERATION
    data = dict(cast("Mapping[str, Any]", message.get("data", {})))
    if "data" in message:
        message["data"] = data
    if "operationId" in data:
        data["operationId"] = NO_OPERATION
    for name, value in test.set.items():
        _set(message, data, name, value)
    return json.dumps(message, ensure_ascii=False, allow_nan=False)


def _set(message: dict[str, Any], data: dict[str, Any], name: str, value: Value) -> None:
    """Set a member of the message, or of its `data`."""
    settable = [member for member in (*message, *data) if member not in FIXED]
    if name not in settable:
        given = name[:LONGEST]
        hint = did_you_mean(given, settable) or f" Valid: {', '.join(settable)}."
        _refuse(given, "not-one-of", f"`set` has no property {given!r} of this event type.{hint}")
    _check_value(name, value)
    target = message if name in message else data
    if isinstance(target[name], dict | list):
        _refuse(name, "wrong-type", f"`{name}` is not a single value, so a test cannot set it.")
    if target[name] is not None and value is not None and not _is_alike(target[name], value):
        _refuse(name, "wrong-type", f"`{name}` must have the type of its example, {json.dumps(target[name])}.")
    target[name] = value


def _check_value(name: str, value: Value) -> None:
    """Check that PostgreSQL can read the value in JSON. Raises `BadRequest`."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            _refuse(name, "too-long", f"`{name}` must have at most {LONGEST_TEXT} characters.")
        if re.search(FREE_TEXT, value) is None:
            _refuse(
                name,
                "wrong-form",
                f"`{name}` must not contain U+0000, or characters that change the direction of text.",
            )
    elif isinstance(value, float) and not math.isfinite(value):
        _refuse(name, "out-of-range", f"`{name}` must be a finite number.")
    elif isinstance(value, int) and not -INT32_MAX - 1 <= value <= INT32_MAX:
        _refuse(name, "out-of-range", f"`{name}` must be an integer of 32 bits.")


def _is_alike(example: object, value: object) -> bool:
    if isinstance(example, int) or isinstance(value, bool):
        return type(example) is type(value)
    if isinstance(example, float):
        return isinstance(value, int | float)
    return isinstance(example, str) and isinstance(value, str)


def _refuse(name: str, code: str, sentence: str) -> None:
    raise BadRequest(invalid_member(ACTION, "set", hint=sentence), errors=[FieldError(code, sentence, f"/set/{name}")])
