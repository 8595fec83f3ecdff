"""In charge of what is wrong with a body, fault by fault: which place, and what would have been right there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from pydantic import TypeAdapter

from keyrack.core.error_codes import FieldError
from keyrack.core.text import direction_control, is_blank

Problem = Mapping[str, Any]  # one of pydantic's errors
Location = Sequence[int | str]

# Types of pydantic's errors; all others are a wrong type
_CODES = {
    "missing": "missing",
    "string_too_long": "too-long",
    "too_long": "too-long",
    "string_too_short": "too-short",
    "too_short": "too-short",
    "greater_than_equal": "out-of-range",
    "less_than_equal": "out-of-range",
    "finite_number": "out-of-range",
    "not_positive": "out-of-range",
    "literal_error": "not-one-of",
    "no_kind": "not-one-of",
    "string_pattern_mismatch": "wrong-form",
    "value_error": "wrong-form",
    "url": "wrong-form",
    "moment": "wrong-form",
    "json_invalid": "invalid-json",
}
_DETAILS = {
    "missing": "It is missing.",
    "string_pattern_mismatch": "It has characters that are not taken here.",
}
DIRECTION_CONTROL = "It has {control}, which changes the direction of the text behind it. Remove that character."
_SUBJECTS = ("Input ", "String ", "List ")  # with which pydantic's messages begin


class PatchStepInfo(Protocol):
    """One step of a JSON Patch."""

    @property
    def path(self) -> str: ...
    @property
    def model_fields_set(self) -> set[str]: ...


def faults(adapter: TypeAdapter[Any], problems: Iterable[Problem]) -> list[FieldError]:
    """Pydantic's errors about a body of the adapter's type; without those about members that it does not know."""
    return [_fault(adapter, problem) for problem in problems if problem["type"] != "extra_forbidden"]


def placed(adapter: TypeAdapter[Any], problems: Sequence[Problem]) -> Sequence[Problem]:
    """Pydantic's errors with their places in the body.

    If a property selects one of several forms, pydantic's own places contain the name of the form, and no place of the
    property.
    """
    whole = schema(adapter)
    return [_placed(whole, problem) for problem in problems] if _has_forms(adapter) else problems


@cache
def _has_forms(adapter: TypeAdapter[Any]) -> bool:
    return "discriminator" in str(schema(adapter))


def _placed(whole: dict[str, Any], problem: Problem) -> Problem:
    subschema, place = whole, list[int | str]()
    for part in problem["loc"]:
        if "discriminator" in subschema:
            subschema = _resolved(whole, {"$ref": subschema["discriminator"]["mapping"][part]})
            continue
        place.append(part)
        inner: Any = subschema.get("items") if isinstance(part, int) else subschema.get("properties", {}).get(part)
        subschema = _resolved(whole, inner or {})
    kind = problem["type"]
    if kind.startswith("union_tag_"):
        discriminator = subschema["discriminator"]
        kind = "missing" if kind == "union_tag_not_found" else "literal_error"
        subschema = {"enum": list(discriminator["mapping"])}
        place.append(discriminator["propertyName"])
    valid = tuple(subschema.get("enum", ())) if kind == "literal_error" else ()
    message = "Input should be one of " + ", ".join(map(str, valid)) if valid else problem["msg"]
    return {**problem, "type": kind, "loc": tuple(place), "msg": message, "valid": valid}


def pointer(location: Location) -> str:
    """The JSON Pointer (RFC 6901) to a place in a body."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def blank(place: str) -> FieldError:
    """A text at this place has nothing to be seen."""
    return FieldError("blank", "It has nothing to be seen.", place)


def at(patch: Sequence[PatchStepInfo], member: str) -> str:
    """The JSON Pointer to the value that a patch sets for a member: the last step with its path."""
    for number, step in reversed(list(enumerate(patch))):
        if step.path == f"/{member}":
            return f"/{number}/value" if "value" in step.model_fields_set else f"/{number}"
    return ""


@cache
def schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The JSON Schema of the adapter's type.

    It is cached, because its generation is slower than a validation.
    """
    return adapter.json_schema()


def _fault(adapter: TypeAdapter[Any], problem: Problem) -> FieldError:
    kind, location = problem["type"], problem["loc"]
    if kind == "string_pattern_mismatch" and is_blank(problem["input"]):
        return blank(pointer(location))
    if kind == "string_pattern_mismatch" and (control := direction_control(problem["input"])):
        return FieldError("direction-control", DIRECTION_CONTROL.format(control=control), pointer(location))
    code = _CODES.get(kind, "wrong-type")
    detail = _DETAILS.get(kind) or _sentence(problem["msg"])
    valid = problem.get("valid") or (_values(schema(adapter), location) if code == "not-one-of" else ())
    return FieldError(code, detail, pointer(location), valid)


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ").removesuffix(".")
    for subject in _SUBJECTS:
        if text.startswith(subject):
            text = "It " + text.removeprefix(subject)
    return text[:1].upper() + text[1:] + "."


def _values(whole: dict[str, Any], location: Location) -> tuple[object, ...]:
    """The values that the schema allows at a place, if it lists them."""
    subschema = _resolved(whole, whole)
    for part in location:
        inner: Any = subschema.get("items") if isinstance(part, int) else subschema.get("properties", {}).get(part)
        if not isinstance(inner, dict):
            return ()
        subschema = _resolved(whole, cast("dict[str, Any]", inner))
    return tuple(subschema.get("enum", [subschema["const"]] if "const" in subschema else []))


def _resolved(whole: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema behind a reference. For a nullable schema, the other choice."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return _resolved(whole, choice)
    return whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
