"""Errors in a request body, each with its place, a sentence, and the valid values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from pydantic import TypeAdapter

from keyrack.core.error_codes import FieldError
from keyrack.core.text import code_point, direction_control, is_blank, trimmed

Problem = Mapping[str, Any]  # one of pydantic's errors
Location = Sequence[int | str]

MAP_KEY = "map_key"  # the kind of an error in a key of a map
_OF_KEY = "[key]"  # after the key in pydantic's place of such an error
_LONGEST_KEY = 60  # characters of a key in a place

# Kind of pydantic's errors -> code, and the sentence about it; without a sentence, pydantic's own is shown
_KINDS: Mapping[str, tuple[str, str]] = {
    "missing": ("missing", "{subject} is missing."),
    "string_type": ("wrong-type", "{subject} must be a string, but is {given}."),
    "int_type": ("wrong-type", "{subject} must be an integer, but is {given}."),
    "int_from_float": ("wrong-type", "{subject} must be an integer, but is {value}."),
    "float_type": ("wrong-type", "{subject} must be a number, but is {given}."),
    "bool_type": ("wrong-type", "{subject} must be true or false, but is {given}."),
    "list_type": ("wrong-type", "{subject} must be an array, but is {given}."),
    "dict_type": ("wrong-type", "{subject} must be an object, but is {given}."),
    "model_type": ("wrong-type", "{subject} must be an object, but is {given}."),
    "model_attributes_type": ("wrong-type", "{subject} must be an object, but is {given}."),
    "string_too_long": ("too-long", "{subject} must have at most {max_length} characters, but has {length}."),
    "string_too_short": ("too-short", "{subject} must have at least {min_length} characters, but has {length}."),
    "too_long": ("too-long", "{subject} must have at most {max_length} items."),
    "too_short": ("too-short", "{subject} must have at least {min_length} items."),
    "greater_than_equal": ("out-of-range", "{subject} must be at least {ge}, but is {value}."),
    "less_than_equal": ("out-of-range", "{subject} must be at most {le}, but is {value}."),
    "finite_number": ("out-of-range", "{subject} must be a finite number."),
    "not_positive": ("out-of-range", "{subject} must be at least 1, but is {value}."),
    "past": ("out-of-range", "{subject} must be in the future, but is {value}."),
    "literal_error": ("not-one-of", "{subject} must be {expected}, but is {value}."),
    "enum": ("not-one-of", "{subject} must be {expected}, but is {value}."),
    "no_kind": ("not-one-of", ""),
    "no_scope": ("not-one-of", ""),
    "string_pattern_mismatch": ("wrong-form", ""),
    "moment": (
        "wrong-form",
        "{subject} must be a time in the format of RFC 3339, such as 2026-01-31T08:00:00Z"
        " or 2026-01-31T09:00:00+01:00, but is {value}.",
    ),
    "wall_clock": (
        "wrong-form",
        "{subject} must be a time in the format of RFC 3339, with or without an offset, such as"
        " 2026-01-31T08:00:00 or 2026-01-31T08:00:00Z, but is {value}.",
    ),
    "base64url": ("wrong-form", ""),
    "url": ("wrong-form", ""),
    MAP_KEY: ("wrong-form", "A key must have 1 to 40 characters: letters, digits, `_`, `.` and `-`."),
    "map_too_large": (
        "too-long",
        "{subject} must have at most {most} bytes in its keys and texts together, but has {size}.",
    ),
    "value_error": ("wrong-form", ""),
    "json_invalid": ("invalid-json", ""),
}
_OF_ANY_TYPE = ("moment", "wall_clock")  # validators that reject values of other types, too
DIRECTION_CONTROL = "{subject} contains {control}, a character that changes the direction of the text after it."
_SUBJECTS = ("Input ", "String ", "List ", "The value ")  # with which messages of validators begin
_BOUNDS = ("max_length", "min_length", "ge", "le", "expected", "most", "size")  # in the context of pydantic's errors
_SHOWN_CHARACTERS = 60  # of a value; texts are only shown beside the valid ones, since others may be secrets
_JSON_TYPES: Mapping[type[object], str] = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}


class PatchStepInfo(Protocol):
    """One step of a JSON Patch."""

    @property
    def path(self) -> str: ...
    @property
    def model_fields_set(self) -> set[str]: ...


def faults(adapter: TypeAdapter[Any], problems: Iterable[Problem]) -> list[FieldError]:
    """Pydantic's errors about a body of the adapter's type, without those about unknown members."""
    return [_fault(adapter, problem) for problem in problems if problem["type"] != "extra_forbidden"]


def placed(adapter: TypeAdapter[Any], problems: Sequence[Problem]) -> Sequence[Problem]:
    """Pydantic's errors with their places in the body.

    If a property selects one of several forms, pydantic's own places contain the name of the form, and no place of the
    property.
    """
    whole = schema(adapter)
    problems = [_with_key(problem) if problem["loc"][-1:] == (_OF_KEY,) else problem for problem in problems]
    return [_placed(whole, problem) for problem in problems] if _has_forms(adapter) else problems


def _with_key(problem: Problem) -> Problem:
    """The error in a map's key, at its place.

    If the key is long, it has the place of the map.
    """
    place = problem["loc"][:-1]
    return {**problem, "type": MAP_KEY, "loc": place if len(place[-1]) <= _LONGEST_KEY else place[:-1]}


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
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind.startswith("union_tag_"):
        discriminator = subschema["discriminator"]
        kind = "missing" if kind == "union_tag_not_found" else "literal_error"
        subschema = {"enum": list(discriminator["mapping"])}
        place.append(discriminator["propertyName"])
        value, context = value.get(place[-1]), {"expected": _listed(subschema["enum"])}
    valid = tuple(subschema.get("enum", ())) if kind == "literal_error" else ()
    return {**problem, "type": kind, "loc": tuple(place), "input": value, "ctx": context, "valid": valid}


def _listed(names: Sequence[str]) -> str:
    """The names as pydantic lists them: `'a', 'b' or 'c'`."""
    quoted = [f"'{name}'" for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def pointer(location: Location) -> str:
    """The JSON Pointer (RFC 6901) to a place in a body."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def blank(place: str) -> FieldError:
    """The error of a blank text at this place."""
    return FieldError("blank", f"`{place.rpartition('/')[2]}` must not be blank.", place)


def at(patch: Sequence[PatchStepInfo], member: str) -> str:
    """The JSON Pointer to a member's value in a patch, in the last step with its path."""
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
    if kind == "string_pattern_mismatch" and direction_control(problem["input"]):
        return FieldError("direction-control", sentence(problem), pointer(location))
    code, _ = _KINDS.get(kind, ("wrong-type", ""))
    if kind in _OF_ANY_TYPE and not isinstance(problem["input"], str):
        code = "wrong-type"
    detail = sentence(problem)
    valid = problem.get("valid") or (_values(schema(adapter), location) if code == "not-one-of" else ())
    return FieldError(code, detail, pointer(location), valid)


def sentence(problem: Problem) -> str:
    """The sentence about an error: the place, the valid values, and the value that came."""
    _, template = _KINDS.get(problem["type"], ("", ""))
    subject = _subject(problem["loc"])
    if problem["type"] == "string_pattern_mismatch":
        return _forbidden_character(problem["input"], subject)
    if not template:
        return _own_sentence(problem["msg"], subject)
    context: Mapping[str, object] = problem.get("ctx", {})
    value: object = problem["input"]
    if context.get("min_length") == 1:
        return f"{subject} must not be empty."
    bounds = {name: _plain(bound) for name, bound in context.items() if name in _BOUNDS}
    length = len(value) if isinstance(value, str) else 0
    given = _shown(value) if isinstance(value, float) else _json_type(value)
    return template.format(subject=subject, value=_shown(value), given=given, length=length, **bounds)


def _forbidden_character(text: str, subject: str) -> str:
    """The sentence about a text that its pattern forbids. It shows no other character, because a text may be secret."""
    control = "\0" if "\0" in text else next((one for one in text if one < " " or "\x7f" <= one <= "\x9f"), None)
    if control is not None:
        return f"{subject} contains {code_point(control)}, which is not allowed."
    if direction := direction_control(text):
        return DIRECTION_CONTROL.format(subject=subject, control=direction)
    if not text.isascii() and text != trimmed(text):
        return f"{subject} must not begin or end with a blank."
    if not text.isascii():
        return f"{subject} must be ASCII."
    return f"{subject} must be printable, and must not begin or end with a blank."


def _plain(bound: object) -> object:
    """A whole number without the fraction that a float shows."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _own_sentence(message: str, subject: str) -> str:
    text = message.removeprefix("Value error, ")
    for prefix in _SUBJECTS:
        if text.startswith(prefix):
            text = f"{subject} {text.removeprefix(prefix)}"
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _subject(location: Location) -> str:
    """How a sentence names a place."""
    names = [part for part in location if isinstance(part, str)]
    if not location:
        return "The body"
    if isinstance(location[-1], int):
        return f"An item of `{names[-1]}`" if names else "An item of the body"
    return f"`{location[-1]}`"


def _json_type(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return "null" if value is None else _JSON_TYPES.get(type(value), "of another type")


def _shown(value: object) -> str:
    """A number or a text in a sentence; of other values the type."""
    if isinstance(value, str):
        return f"{value[:_SHOWN_CHARACTERS]!a}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)[:_SHOWN_CHARACTERS]
    return _json_type(value)


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
