"""Generates the types, operations and error classes of the client packages.

    python clients/generate.py            # writes the files
    python clients/generate.py --check    # exits with 1 if a file is not up to date

The OpenAPI document and the catalogue of error codes are the sources. The files of a package:

- Python: `_types.py` (a TypedDict for each schema), `operations.py`, `errors_by_code.py`.
- TypeScript: `types.ts` (an interface for each schema, the operations, and the error codes).

The operations of the drivers' app are left out: they need the session of a browser. So are those without JSON, and the
two that take the form of a token.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
PYTHON = ROOT / "python/src/keyrack_client"
TYPESCRIPT = ROOT / "typescript/src"
NOTE = "Made by clients/generate.py from the OpenAPI document of the server. Do not edit."
DRIVERS_APP = "/drive/"
METHODS = ("get", "put", "post", "patch", "delete")
JSON = "application/json"
PYTHON_NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TYPESCRIPT_NAMES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
# The base class of an error class, by status; others derive from `ApiError`
BASES = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
}
FIRST_SERVER_ERROR = 500

Json = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """An operation: its request, and the schemas of its body and its answer; None without one.

    A body that `is_optional` can be left out.
    """

    id: str
    method: str
    path: str
    summary: str
    body: Json | None
    answer: Json | None
    is_optional: bool


@dataclass(frozen=True)
class Code:
    """A code of the catalogue of errors."""

    status: int
    code: str
    title: str
    remedy: str

    @property
    def class_name(self) -> str:
        return "".join(word.capitalize() for word in self.code.split("-"))

    @property
    def base(self) -> str:
        return "ServerError" if self.status >= FIRST_SERVER_ERROR else BASES.get(self.status, "ApiError")


@dataclass(frozen=True)
class Source:
    """The contents of the generated files."""

    operations: list[Operation]
    schemas: dict[str, Json]
    codes: list[Code]
    sent: frozenset[str]  # the names of the schemas that only bodies of requests have


def read_source() -> Source:
    """Read the document and the codes of the source tree, with the default settings."""
    for name in [name for name in os.environ if name.startswith("KEYRACK_")]:
        del os.environ[name]
    from keyrack.core.settings import Settings
    from keyrack.http.openapi import error_catalog
    from keyrack.http.openapi.document import document
    from keyrack.http.routes import ALL

    codes = [Code(row.status, row.code, row.title, row.remedy) for row in error_catalog.codes(ALL) if row.status >= 400]
    return make_source(document(ALL, Settings()), codes)


def make_source(document: Json, codes: list[Code]) -> Source:
    operations = list(read_operations(document))
    schemas: dict[str, Json] = dict(document["components"]["schemas"])
    bodies = reachable(schemas, [row.body for row in operations])
    received = [*(row.answer for row in operations), *webhook_schemas(document), ref("Problem")]
    answers = reachable(schemas, received)
    kept = {name: schemas[name] for name in sorted(bodies | answers)}
    updates = {
        name.removesuffix("Patch") + "Update": update_schema(name, schemas) for name in kept if is_patch(schemas[name])
    }
    return Source(
        operations,
        dict(sorted((kept | updates).items())),
        sorted(codes, key=lambda row: row.code),
        frozenset(bodies - answers) | updates.keys(),
    )


def is_patch(schema: Json) -> bool:
    return {"op", "path"} <= schema.get("properties", {}).keys()


def update_schema(name: str, schemas: dict[str, Json]) -> Json:
    """The properties that a patch can change, as an object; null removes a value."""
    created = schemas.get("New" + name.removesuffix("Patch"), {}).get("properties", {})
    paths = [path[1:] for path in literals(schemas[name]["properties"]["path"]) if "/" not in path[1:]]
    properties = {path: {"anyOf": [created.get(path, {}), {"type": "null"}]} for path in paths}
    return {
        "type": "object",
        "description": "The properties to change. Null removes a value.",
        "properties": properties,
    }


def literals(schema: Json) -> list[str]:
    """The values of an enumeration, also of one among other forms."""
    own = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return [*own, *(text for part in schema.get("anyOf", []) for text in literals(part))]


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def name_of(schema: Json) -> str:
    return schema["$ref"].rsplit("/", 1)[1]


def read_operations(document: Json) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        if path.startswith(DRIVERS_APP):
            continue
        for method in METHODS:
            if method not in methods:
                continue
            row = methods[method]
            answer, is_json = answer_schema(document, row)
            if not is_json:
                continue
            content = row.get("requestBody", {})
            body = content_schema(content)
            if content and body is None:
                continue
            is_optional = not content.get("required", False)
            yield Operation(row["operationId"], method.upper(), path, row["summary"], body, answer, is_optional)


def content_schema(holder: Json) -> Json | None:
    """The schema of the JSON content; None without one."""
    content = holder.get("content", {})
    return content[JSON]["schema"] if JSON in content else None


def answer_schema(document: Json, row: Json) -> tuple[Json | None, bool]:
    """The schema of a success without `Prefer`, and whether it is JSON or empty.

    204 and 201 come first: 200 beside 204, and a second schema beside `Created`, need `Prefer`.
    """
    answers = {status: answer for status, answer in row["responses"].items() if status.startswith("2")}
    if "204" in answers:
        return None, True
    answer = answers[max(answers)]
    if "$ref" in answer:
        answer = document["components"]["responses"][name_of(answer)]
    schema = content_schema(answer)
    if schema is not None and max(answers) == "201" and "anyOf" in schema:
        schema = schema["anyOf"][0]
    return schema, schema is not None or not answer.get("content")


def webhook_schemas(document: Json) -> list[Json]:
    """The schemas of the bodies that receivers get."""
    rows = [row for methods in document.get("webhooks", {}).values() for row in methods.values()]
    return [schema for row in rows if (schema := content_schema(row.get("requestBody", {}))) is not None]


def reachable(schemas: dict[str, Json], first: Iterable[Json | None]) -> set[str]:
    """The names of the schemas that these ones refer to, also over others."""
    found: set[str] = set()
    queue: list[Any] = list(first)
    while queue:
        value = queue.pop()
        if isinstance(value, list):
            queue.extend(value)
        elif isinstance(value, dict):
            if "$ref" in value and value["$ref"].startswith("#/components/schemas/") and name_of(value) not in found:
                found.add(name_of(value))
                queue.append(schemas[name_of(value)])
            queue.extend(part for key, part in value.items() if key not in ("example", "examples", "discriminator"))
    return found


def is_object(schema: Json) -> bool:
    return schema.get("type") == "object" and bool(schema.get("properties"))


def extended(schema: Json) -> tuple[str, Json] | None:
    """The base and the additions, if the schema is another one with more properties."""
    parts = schema.get("allOf", [])
    if len(parts) == 2 and "$ref" in parts[0] and is_object(parts[1]):
        return name_of(parts[0]), parts[1]
    return None


def describe(schema: Json) -> str:
    return " ".join(schema.get("description", "").split())


def union(types: Iterable[str]) -> str:
    """The union of the types, each once."""
    parts = (part for text in types for part in (text.split(" | ") if not set(text) & set("[(<") else [text]))
    return " | ".join(dict.fromkeys(parts))


# Python


def python_type(schema: Any, is_sent: bool = False) -> str:
    """The type; in bodies of requests, a time can be a `datetime`."""
    if schema is True or not schema:
        return "Any"
    if "$ref" in schema:
        return name_of(schema)
    if "const" in schema or "enum" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return f"Literal[{', '.join(quote(value) if isinstance(value, str) else repr(value) for value in values)}]"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return union(python_type(part, is_sent) for part in schema[several])
    if "allOf" in schema:
        return python_type(schema["allOf"][0], is_sent)
    kind = schema.get("type")
    if isinstance(kind, list):
        return union(python_type({**schema, "type": one}, is_sent) for one in kind)
    if kind == "array":
        return f"list[{python_type(schema.get('items', True))}]"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        inner = "Any" if schema.get("properties") or values is False else python_type(values, is_sent)
        return f"dict[str, {inner}]"
    if is_sent and kind == "string" and schema.get("format") == "date-time":
        return "str | datetime"
    return PYTHON_NAMES.get(kind, "Any")


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def python_types(source: Source) -> str:
    lines = [
        f'"""Types of bodies and answers. {NOTE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from datetime import datetime",
        "from typing import Any, Literal, TypeAlias, TypedDict",
        "",
        f"__all__ = {json.dumps(sorted(source.schemas))}",
        "",
    ]
    for name in in_order(source.schemas):
        lines += python_schema(name, source.schemas[name], name in source.sent)
    return "\n".join(lines)


def in_order(schemas: dict[str, Json]) -> list[str]:
    """The names in an order in which bases stand before subclasses, and the parts of an alias before the alias.

    Annotations of properties are read later, so they need no order.
    """
    needs: dict[str, list[str]] = {}
    for name, schema in schemas.items():
        base = extended(schema)
        if base is not None:
            needs[name] = [base[0]]
        else:
            needs[name] = [] if is_object(schema) else sorted(reachable(schemas, [schema]) - {name})
    return list(TopologicalSorter(needs).static_order())


def python_schema(name: str, schema: Json, is_sent: bool) -> list[str]:
    base = extended(schema)
    if base is not None:
        return python_class(name, base[1], base[0], is_sent)
    if is_object(schema):
        return python_class(name, schema, "TypedDict", is_sent)
    return [f"{name}: TypeAlias = {python_type(schema, is_sent)}", ""]


def quote_type(text: str) -> str:
    return f"'{text}'" if "'" not in text else repr(text)


def python_class(name: str, schema: Json, base: str, is_sent: bool) -> list[str]:
    """A TypedDict.

    Classes of Python 3.10 have no `NotRequired`, so required properties get a base class. So do those whose name is no
    identifier.
    """
    required = set(schema.get("required", []))
    lines: list[str] = []
    bases = [base]
    for is_required in (True, False):
        odd = {k: v for k, v in schema["properties"].items() if (k in required) == is_required and not is_name(k)}
        if not odd:
            continue
        helper = f"_{name}{'Required' if is_required else 'Optional'}Keys"
        fields = ", ".join(f"{quote(key)}: {quote_type(python_type(value, is_sent))}" for key, value in odd.items())
        total = "" if is_required else ", total=False"
        lines += [f'{helper} = TypedDict("{helper}", {{{fields}}}{total})', ""]
        bases = [part for part in bases if part != "TypedDict"] + [helper]
    needed = {k: v for k, v in schema["properties"].items() if k in required and is_name(k)}
    optional = {k: v for k, v in schema["properties"].items() if k not in required and is_name(k)}
    if needed and optional:
        lines += [f"class _{name}Required({', '.join(bases)}):", *python_fields(needed, is_sent), ""]
        bases = [f"_{name}Required"]
    lines += [f"class {name}({', '.join(bases)}{', total=False' if optional else ''}):"]
    if text := describe(schema):
        lines += [f'    """{text}"""', ""]
    return [*lines, *python_fields(optional or needed, is_sent), ""]


def is_name(key: str) -> bool:
    return key.isidentifier() and not keyword.iskeyword(key)


def python_fields(properties: dict[str, Json], is_sent: bool) -> list[str]:
    return [f"    {key}: {python_type(value, is_sent)}" for key, value in properties.items()] or ["    pass"]


def python_operations(source: Source) -> str:
    lines = [
        f'"""The operations of the API, for `call`. {NOTE}"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "from . import _types as t",
        "from ._operation import Operation",
        "",
    ]
    for row in source.operations:
        body, answer = python_reference(row.body), python_reference(row.answer)
        lines += [
            f"{row.id}: Operation[{body}, {answer}] = Operation("
            f"{quote(row.id)}, {quote(row.method)}, {quote(row.path)})",
            f'"""{row.summary}"""',
        ]
    lines += ["", "ALL: dict[str, Operation[Any, Any]] = {"]
    lines += [f"    {quote(row.id)}: {row.id}," for row in source.operations]
    return "\n".join([*lines, "}", ""])


def python_reference(schema: Json | None) -> str:
    """The type with the names of schemas in the module `t`."""
    if schema is None:
        return "None"
    return re.sub(
        r"\b([A-Z]\w*)\b",
        lambda found: found[1] if found[1] in ("Any", "None") else f"t.{found[1]}",
        python_type(schema),
    )


def python_errors(source: Source) -> str:
    bases = sorted({row.base for row in source.codes})
    lines = [
        f'"""A class for each error code of the API. {NOTE}"""',
        "",
        "from __future__ import annotations",
        "",
        f"from ._errors import {', '.join(bases)}",
        "",
        f"__all__ = {json.dumps([row.class_name for row in source.codes])}",
        "",
    ]
    for row in source.codes:
        text = row.remedy.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f"class {row.class_name}({row.base}, code={quote(row.code)}):", f'    """{text}"""', ""]
    return "\n".join(lines)


# TypeScript


def typescript_type(schema: Any, is_sent: bool = False) -> str:
    """The type; in bodies of requests, a time can be a `Date`."""
    if schema is True or not schema:
        return "unknown"
    if "$ref" in schema:
        return name_of(schema)
    if "const" in schema or "enum" in schema:
        return " | ".join(map(quote_value, schema["enum"] if "enum" in schema else [schema["const"]]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return union(typescript_type(part, is_sent) for part in schema[several])
    if "allOf" in schema:
        return typescript_type(schema["allOf"][0], is_sent)
    kind = schema.get("type")
    if isinstance(kind, list):
        return union(typescript_type({**schema, "type": one}, is_sent) for one in kind)
    if kind == "array":
        inner = typescript_type(schema.get("items", True), is_sent)
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        inner = "unknown" if schema.get("properties") or values is False else typescript_type(values, is_sent)
        return f"Record<string, {inner}>"
    if is_sent and kind == "string" and schema.get("format") == "date-time":
        return "string | Date"
    return TYPESCRIPT_NAMES.get(kind, "unknown")


def quote_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def typescript_schema(name: str, schema: Json, is_sent: bool) -> list[str]:
    text = describe(schema).replace("*/", "* /")
    lines = [f"/** {text} */"] if text else []
    base = extended(schema)
    if base is None and not is_object(schema):
        return [*lines, f"export type {name} = {typescript_type(schema, is_sent)};", ""]
    members = base[1] if base is not None else schema
    required = set(members.get("required", []))
    lines.append(f"export interface {name}{f' extends {base[0]}' if base is not None else ''} {{")
    for key, value in members["properties"].items():
        shown = key if re.fullmatch(r"[A-Za-z_$][\w$]*", key) else quote(key)
        lines.append(f"  {shown}{'' if key in required else '?'}: {typescript_type(value, is_sent)};")
    return [*lines, "}", ""]


def typescript(source: Source) -> str:
    lines = [f"// Types of bodies and answers, operations and error codes. {NOTE}", ""]
    for name, schema in source.schemas.items():
        lines += typescript_schema(name, schema, name in source.sent)
    lines += ["/** The bodies and answers of the operations. */", "export interface Operations {"]
    for row in source.operations:
        body = "undefined" if row.body is None else typescript_type(row.body)
        if row.body is not None and row.is_optional:
            body += " | undefined"
        answer = "undefined" if row.answer is None else typescript_type(row.answer)
        lines += [
            f"  /** {row.summary} */",
            f"  {row.id}: {{ body: {body}; answer: {answer}; ids: [{', '.join(typescript_ids(row.path))}] }};",
        ]
    lines += ["}", "", "/** The method and path of each operation. */", "export const OPERATIONS = {"]
    lines += [f"  {row.id}: [{quote(row.method)}, {quote(row.path)}]," for row in source.operations]
    lines += ["} as const satisfies Record<keyof Operations, readonly [string, string]>;", ""]
    lines += ["/** The codes of errors. */", "export type ErrorCode ="]
    lines += [f"  | {quote(row.code)}" for row in source.codes]
    lines[-1] += ";"
    return "\n".join([*lines, ""])


def typescript_ids(path: str) -> list[str]:
    """The ids of the path, as named elements of a tuple."""
    return [f"{name}: string | number" for name in re.findall(r"\{(\w+)\}", path)]


def outputs(source: Source) -> dict[Path, str]:
    """The generated files with their texts."""
    return {
        PYTHON / "_types.py": python_types(source),
        PYTHON / "operations.py": python_operations(source),
        PYTHON / "errors_by_code.py": python_errors(source),
        TYPESCRIPT / "types.ts": typescript(source),
    }


def main(arguments: list[str]) -> int:
    texts = outputs(read_source())
    stale = [file for file, text in texts.items() if not file.is_file() or file.read_text() != text]
    if "--check" in arguments:
        for file in stale:
            print(f"{file.relative_to(ROOT)} is not up to date. Run: make clients", file=sys.stderr)
        return 1 if stale else 0
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts[file])
        print(file.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
