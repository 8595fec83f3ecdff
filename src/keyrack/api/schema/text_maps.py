"""Maps of texts by key, such as `metadata`, and their patches.

A patch replaces the whole map at `/metadata`, or one key at `/metadata/plan`. A map without keys is stored as null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, LiteralString, NamedTuple, cast

from pydantic import AfterValidator, Field, TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from keyrack.api.schema.field_errors import MAP_KEY, PatchStepInfo
from keyrack.api.schema.request_body import IN_NFC, METADATA, PatchStep, validate_body
from keyrack.core.errors import BadRequest
from keyrack.core.text import FREE_TEXT

KEYS = 20  # of one map, at most
LONGEST_TEXT = 500  # characters
BYTES = 4_096  # of all keys and texts of a map together, in UTF-8
_KEY = "[A-Za-z0-9_.-]{1,40}"
_PATH = f"/{METADATA}"
_PATH_OF_KEY = re.compile(f"{_PATH}/{_KEY}").fullmatch

Texts = Mapping[str, str]


def size(texts: Texts) -> int:
    """The bytes of all keys and texts."""
    return sum(len(key) + len(text.encode()) for key, text in texts.items())


def fits(texts: Texts) -> bool:
    """Whether a map is within the limits of its keys and bytes."""
    return len(texts) <= KEYS and size(texts) <= BYTES


def _checked(texts: dict[str, str]) -> dict[str, str]:
    if (given := size(texts)) > BYTES:
        raise PydanticCustomError("map_too_large", "too large", {"most": BYTES, "size": given})
    return texts


TextMap = Annotated[
    dict[
        Annotated[str, Field(pattern=f"^{_KEY}$")],
        Annotated[str, Field(max_length=LONGEST_TEXT, pattern=FREE_TEXT), IN_NFC],
    ],
    Field(max_length=KEYS),
    AfterValidator(_checked),
]


def path_schema(paths: Sequence[str]) -> core_schema.CoreSchema:
    """The schema of a patch's `path`: one of these.

    A map among them also has a path for each key.
    """
    literal = core_schema.literal_schema([*paths])
    if _PATH not in paths:
        return literal

    def check(value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, str) and value.startswith(_PATH + "/"):
            if _PATH_OF_KEY(value):
                return value
            raise PydanticCustomError(MAP_KEY, "wrong key")
        return handler(value)

    def describe(schema: core_schema.CoreSchema, handler: Callable[[core_schema.CoreSchema], Any]) -> Any:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": f"^{_PATH}/{_KEY}$"}]}

    return core_schema.no_info_wrap_validator_function(check, literal, metadata={"pydantic_js_functions": [describe]})


def value_schema(others: core_schema.CoreSchema) -> core_schema.CoreSchema:
    """The schema of a patch's `value`: an object, or `others`."""

    def check(value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        return cast("dict[str, Any]", value) if isinstance(value, dict) else handler(value)

    def describe(schema: core_schema.CoreSchema, handler: Callable[[core_schema.CoreSchema], Any]) -> Any:
        inner = handler(schema)
        choices = inner.get("anyOf", [inner])
        return {**inner, "anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, *choices]}

    return core_schema.no_info_wrap_validator_function(check, others, metadata={"pydantic_js_functions": [describe]})


class MapPatch(NamedTuple):
    """A new map, or new texts and removed keys."""

    whole: Any
    texts: dict[str, Any]
    removed: frozenset[str]
    is_whole: bool


def changes_of(
    values: dict[str, Any], patch: Sequence[PatchStep], action: str, adapter: Callable[[], TypeAdapter[Any]]
) -> dict[str, Any]:
    """The change of the map in a patch.

    It is removed from `values`, and empty if the patch does not change the map.
    The change is `{"metadata": {"whole": ...}}` with the new map, or `{"metadata": {"texts": ...}}` with the new texts
    by key, null for removed ones. Each step applies to the result of the steps before it. `adapter` returns the type of
    a body with the map alone. Raises `BadRequest`.
    """
    named = [name for name in values if name.partition("/")[0] == METADATA]
    if not named:
        return {}
    for name in named:
        del values[name]
    merged = _merged(patch)
    body = merged.whole if merged.whole is not None and not isinstance(merged.whole, dict) else merged.texts
    try:
        valid = validate_body(adapter(), json.dumps({METADATA: body}).encode(), action)
    except BadRequest as refusal:
        faults = [replace(fault, pointer=_place(patch, fault.pointer or "")) for fault in refusal.errors]
        raise BadRequest(refusal.reason, errors=faults) from None
    texts = cast("dict[str, str]", getattr(valid, METADATA))
    if merged.is_whole:
        return {METADATA: {"whole": texts or None}}
    return {METADATA: {"texts": {**texts, **dict.fromkeys(merged.removed)}}}


def _merged(patch: Sequence[PatchStep]) -> MapPatch:
    whole: Any = None
    texts: dict[str, Any] = {}
    removed = set[str]()
    is_whole = False
    for step in patch:
        _, _, key = step.path.removeprefix("/").partition("/")
        if step.path == _PATH:
            whole = step.value if step.op == "replace" else None
            texts = dict(cast("dict[str, Any]", whole)) if isinstance(whole, dict) else {}
            removed, is_whole = set[str](), True
        elif step.path.startswith(_PATH + "/") and step.op == "replace":
            texts[key] = step.value
            removed.discard(key)
        elif step.path.startswith(_PATH + "/"):
            texts.pop(key, None)
            removed.add(key)
    return MapPatch(whole, texts, frozenset(removed), is_whole)


def _place(patch: Sequence[PatchStepInfo], pointer: str) -> str:
    """The place in a patch for a place in its result.

    It is in the last step that set the key, or the map.
    """
    for number, step in reversed(list(enumerate(patch))):
        if step.path in (pointer, _PATH) or (pointer == _PATH and step.path.startswith(_PATH + "/")):
            return f"/{number}/value" + (
                pointer.removeprefix(_PATH) if step.path != pointer and pointer != _PATH else ""
            )
    return ""


def changed_sql(column: LiteralString, change: LiteralString) -> LiteralString:
    """SQL of the new map, from the JSON of `changes_of`.

    A check of the table limits the result.
    """
    return (
        "nullif(nullif(case when " + change + " ? 'whole' then " + change + "->'whole' else"
        " jsonb_strip_nulls(coalesce(" + column + ", '{}') || (" + change + "->'texts')) end, 'null'), '{}')"
    )  # fmt: skip


def patched(texts: Texts | None, change: Mapping[str, Any]) -> dict[str, str] | None:
    """The map after a change of `changes_of`; None for an empty one."""
    if "whole" in change:
        return change["whole"] or None
    merged = {**(texts or {}), **change["texts"]}
    return {key: text for key, text in merged.items() if text is not None} or None
