"""The recorded contract of an earlier build of the app.

An app that has not updated yet works with a newer server for `DAYS` days. So `app-contract.json` has the schemas of the
last released build. After a release, `KEYRACK_CONTRACT=write pytest tests/drivers/test_app_contract.py` records the new
build. A difference before a release is a defect of the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from keyrack.core.settings import Settings
from keyrack.http.openapi.document import document
from keyrack.http.routes import ALL

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("app-contract.json")
DAYS = 28
# Calls whose address is not one literal in the modules: those of `reference/phone/server.js`, and of two lists
OTHERS = (
    "POST /sdk/devices/nonce", "PUT /sdk/devices", "DELETE /sdk/devices/{}", "GET /sdk/keys", "PUT /sdk/boxlog",
    "POST /sdk/time", "DELETE /drive/api/sessions", "DELETE /drive/api/sessions/{}",
)  # fmt: skip
CALL = re.compile(r"""call\(\s*'([A-Z]+)',\s*['`](/drive/api/[^'`]+)['`]""")
DOCUMENTATION = ("description", "title", "examples", "example", "$ref")

Json = dict[str, Any]


def calls() -> set[str]:
    """The calls of the present app, as `GET /path`, with `{}` for each parameter."""
    modules = (ROOT / "src/keyrack/drivers/app").rglob("*.js")
    found = {f"{method} {path}" for module in modules for method, path in CALL.findall(module.read_text())}
    return {re.sub(r"\$?\{[^}]*\}", "{}", call) for call in found} | set(OTHERS)


def present() -> dict[str, Json]:
    """The operations of the present server, without references."""
    whole = _document()
    return {call: _operation(whole, operation) for call, operation in _operations(whole)}


def error_codes() -> set[str]:
    """The codes of errors that calls of the present app may get."""
    whole, used = _document(), calls()
    found: set[str] = set()
    for call, operation in _operations(whole):
        for status, reply in operation["responses"].items() if call in used else ():
            if status >= "400":
                _, narrowed = _inlined(whole, reply)["content"]["application/problem+json"]["schema"]["allOf"]
                found.update(narrowed["properties"]["code"]["enum"])
    return found


def _document() -> Json:
    return document([row for row in ALL if "simulated" not in row.path], Settings())  # without the radio of the demo


def _operations(whole: Json) -> Iterator[tuple[str, Json]]:
    """The operations of drivers and of phones, as `GET /path`. Other schemas contain each other."""
    for path, methods in whole["paths"].items():
        for method, operation in methods.items() if path.startswith(("/drive/api/", "/sdk/")) else ():
            yield re.sub(r"\{[^}]*\}", "{}", f"{method.upper()} {path}"), operation


def _operation(whole: Json, operation: Json) -> Json:
    def body(content: Json) -> Any:
        return _inlined(whole, content["schema"]) if "schema" in content else None

    replies = {status: _inlined(whole, reply) for status, reply in operation["responses"].items() if status < "300"}
    return {
        "sends": body(operation.get("requestBody", {}).get("content", {}).get("application/json", {})),
        "reads": {
            status: body(reply.get("content", {}).get("application/json", {})) for status, reply in replies.items()
        },
    }


def _inlined(whole: Json, part: Any) -> Any:
    """The part with resolved references, and without documentation."""
    if isinstance(part, list):
        return [_inlined(whole, inner) for inner in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        *_, kind, name = part["$ref"].split("/")
        return _inlined(whole, whole["components"][kind][name])
    members = cast("Json", part)
    return {
        key: {name: _inlined(whole, schema) for name, schema in inner.items()}
        if key == "properties"
        else _inlined(whole, inner)
        for key, inner in members.items()
        if key not in DOCUMENTATION
    }


def recorded() -> dict[str, Json]:
    return json.loads(FILE.read_text())


def write() -> None:
    known = present()
    FILE.write_text(json.dumps({call: known[call] for call in sorted(calls())}, indent=1, sort_keys=True) + "\n")


def broken(old: dict[str, Json], new: dict[str, Json]) -> list[str]:
    """The incompatibilities of a new contract with an old app."""
    found: list[str] = []
    for call, operation in old.items():
        if call not in new:
            found.append(f"{call}: removed")
            continue
        found += [f"{call}: sends {text}" for text in _refused(operation["sends"], new[call]["sends"], "")]
        for status, schema in operation["reads"].items():
            if status not in new[call]["reads"]:
                found.append(f"{call}: no longer answers {status}")
            else:
                found += [f"{call}: reads {text}" for text in _missing(schema, new[call]["reads"][status], "")]
    return found


def _refused(old: Any, new: Any, place: str) -> Iterator[str]:
    """Bodies of the old app that the new server rejects."""
    if old is None or new is None:
        if new is not None and new.get("required"):
            yield f"no body, but {', '.join(new['required'])} are required"
        return
    for before, after in _pairs(old, new):
        known = before.get("properties", {})
        for name in sorted(set(after.get("required", ())) - set(before.get("required", ()))):
            yield f"{place}{name}: newly required"
        for name, schema in known.items():
            if name not in after.get("properties", {}):
                yield f"{place}{name}: no longer accepted"
            else:
                yield from _refused(schema, after["properties"][name], f"{place}{name}.")
    for kind in sorted(_types(old) - _types(new)):
        yield f"{place.rstrip('.') or 'body'}: {kind} is no longer accepted"
    for value in sorted(_values(old) - _values(new)) if _values(new) else ():
        yield f"{place.rstrip('.')}: the value {value} is no longer accepted"


def _missing(old: Any, new: Any, place: str) -> Iterator[str]:
    """Members that the old app reads, and the server changed."""
    if old is None:
        return
    if new is None:
        yield f"{place.rstrip('.') or 'body'}: no body"
        return
    for before, after in _pairs(old, new):
        for name, schema in before.get("properties", {}).items():
            if name not in after.get("properties", {}):
                yield f"{place}{name}: removed"
                continue
            if name in before.get("required", ()) and name not in after.get("required", ()):
                yield f"{place}{name}: may be absent now"
            yield from _missing(schema, after["properties"][name], f"{place}{name}.")
        if "items" in before:
            yield from _missing(before["items"], after.get("items"), f"{place}[].")
    for kind in sorted(_types(new) - _types(old)):
        yield f"{place.rstrip('.') or 'body'}: may be {kind} now"
    for value in sorted(_values(new) - _values(old)) if _values(old) else ():
        yield f"{place.rstrip('.')}: has the unknown value {value}"


def _options(schema: Json) -> list[Json]:
    return [option for part in schema.get("anyOf", [schema]) for option in part.get("oneOf", [part])]


def _pairs(old: Json, new: Json) -> Iterator[tuple[Json, Json]]:
    """The objects and arrays of both schemas, by type."""
    for before in _options(old):
        for after in _options(new):
            if before.get("type") == after.get("type") and before.get("type") in ("object", "array"):
                yield before, after


def _types(schema: Json) -> set[str]:
    found: set[str] = set()
    for option in _options(schema):
        kind = option.get("type", ())
        found |= {kind} if isinstance(kind, str) else set(kind)
    return found


def _values(schema: Json) -> set[str]:
    return {str(value) for option in _options(schema) for value in option.get("enum", [])}
