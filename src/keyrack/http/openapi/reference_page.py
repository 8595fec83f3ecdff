"""The API reference at /docs: one page generated from OpenAPI, without scripts or external resources."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, cast

from keyrack.http.openapi.shared_components import whole

Json = dict[str, Any]

PREFERRED = ", with Prefer: return=representation"  # a status that only this preference causes
CODE = re.compile(r"`([^`]+)`")

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --get: #1a7f5a; --put: #9a6700; --patch: #6f42c1;
  --delete: #b3261e; --post: #0b62c4; }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1.5rem }
h1 { margin: 0 0 .25rem } h2 { margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line) }
nav a { margin-right: .9rem; white-space: nowrap }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .4rem 0; padding: 0 .8rem }
summary { cursor: pointer; padding: .5rem 0; display: flex; gap: .7rem; align-items: baseline; flex-wrap: wrap }
summary code { font-weight: 600; overflow-wrap: anywhere } summary span:last-child { opacity: .8 }
.m { color: #fff; border-radius: .3rem; font: 600 .75rem/1.6 ui-monospace, monospace; padding: 0 .5rem;
  min-width: 4.2rem; text-align: center } .get { background: var(--get) } .put { background: var(--put) }
.patch { background: var(--patch) }
.delete { background: var(--delete) } .post { background: var(--post) }
table { border-collapse: collapse; width: 100%; margin: .3rem 0 1rem } td, th { text-align: left; vertical-align: top;
  padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line) }
td:nth-child(2) { min-width: 8rem } @media (max-width: 48rem) { td { overflow-wrap: anywhere; min-width: 4.5rem } }
code, pre { font: .875rem/1.5 ui-monospace, monospace }
details pre { background: var(--soft); border-radius: .5rem; margin: .3rem 0 1rem; max-height: 24rem; overflow: auto;
  padding: .7rem .9rem }
h3 { font-size: .95rem; margin: .6rem 0 .2rem } .mark { margin-right: .4rem; font-size: .8rem; opacity: .7 }
"""


def page(document: Json) -> str:
    """The page as HTML."""
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag[operation["tags"][0]].append(_operation(document, path, method, operation))
    words = {tag["name"]: tag["description"] for tag in document["tags"]}
    links = "".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a> ' for tag in by_tag)
    sections = "".join(
        f'<section><h2 id="{_anchor(tag)}">{escape(tag)}</h2><p>{_coded(words[tag])}</p>{"".join(operations)}</section>'
        for tag, operations in by_tag.items()
    )
    info = document["info"]
    key = document["components"]["securitySchemes"]["apiKey"]["name"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(info['title'])}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(info['title'])}</h1><p>{escape(info['summary'])} Version {escape(info['version'])}, base "
        f"<code>{escape(document['servers'][0]['url'])}</code>. {_coded(info['description'])}</p>"
        f"<p>Every request needs <code>{escape(key)}</code> and, except at the token endpoint, "
        "<code>Authorization: Bearer ...</code>. Most requests also need <code>Customer-ID</code>. "
        'The document itself: <a href="openapi.json">openapi.json</a>.</p>'
        '<p>All errors and their remedies: <a href="docs/errors">error codes</a>.</p>'
        f"<nav>{links}</nav></header><main>{sections}</main></body></html>"
    )


def _operation(document: Json, path: str, method: str, operation: Json) -> str:
    marks = ["extension"] if operation.get("x-keyrack-extension") else []
    marks += ["preview"] if operation["x-keyrack-stability"] == "preview" else []
    shown_marks = "".join(f'<span class="mark">{mark}</span>' for mark in marks)
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="m {method}">{method.upper()}</span>'
        f"<code>{escape(path)}</code>{shown_marks}<span>{escape(operation['summary'])}</span></summary>"
        f"<p>{_coded(operation['description'])}</p>{_parameters(document, operation)}{_body(document, operation)}"
        f"{_responses(document, operation)}</details>"
    )


def _parameters(document: Json, operation: Json) -> str:
    rows = [
        (parameter["name"], f"{parameter['in']}, {_type({}, parameter['schema'])}", parameter["description"])
        for parameter in (whole(document, part) for part in operation["parameters"])
    ]
    return table("Parameters", rows)


def _body(document: Json, operation: Json) -> str:
    if "requestBody" not in operation:
        return ""
    contents = operation["requestBody"]["content"]
    first = next(iter(contents.values()))
    return _members(document, f"Body ({', '.join(contents)})", first["schema"]) + _example(first)


def _responses(document: Json, operation: Json) -> str:
    responses = {status: whole(document, part) for status, part in operation["responses"].items()}
    usual = next(iter(responses))
    rows = [
        (status, ", ".join(response.get("content", {})), response["description"])
        for status, response in responses.items()
    ]
    shapes = (
        _members(document, f"Response ({status}{'' if status == usual else PREFERRED})", content["schema"])
        + _example(content)
        for status, response in responses.items()
        for content in response.get("content", {}).values()
        if status.startswith("2")
    )
    return _headers(document, usual, responses[usual]) + next(shapes, "") + table("Statuses", rows)


def _headers(document: Json, status: str, response: Json) -> str:
    """The headers of a response. For some, such as that of an assignment, they are its only content."""
    headers = {name: whole(document, part) for name, part in response.get("headers", {}).items()}
    return table(
        f"Response headers ({status})",
        [(name, _type(document, header["schema"]), header["description"]) for name, header in headers.items()],
    )


def _example(content: Json) -> str:
    """An example of a body, as JSON or text."""
    shown = content["example"]
    text = shown if isinstance(shown, str) else json.dumps(shown, indent=2)
    return f"<h3>Example</h3><pre>{escape(text)}</pre>"


def _members(document: Json, title: str, schema: Json) -> str:
    item = _resolved(document, schema)
    many = ""
    if item.get("type") == "array":
        many, item = ", an array of", _resolved(document, item["items"])
    required = set(item.get("required", ()))
    rows = [
        (name + ("*" if name in required else ""), _type(document, member), member.get("description", ""))
        for name, member in item.get("properties", {}).items()
    ]
    return table(title + many, rows)


def _type(document: Json, schema: Json) -> str:
    schema = _resolved(document, schema)
    if "anyOf" in schema:
        return " or ".join(_type(document, option) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "any")
    named = " or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
    if "properties" in schema:
        named += " {" + ", ".join(schema["properties"]) + "}"
    return named + (f" ({schema['format']})" if "format" in schema else "")


def _resolved(document: Json, schema: Json) -> Json:
    if "$ref" not in schema:
        return schema
    return document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]


def table(title: str, rows: list[tuple[str, str, str]]) -> str:
    """A table of names with types and descriptions; empty without rows."""
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{_coded(text)}</td></tr>"
        for name, kind, text in rows
    )
    return f"<h3>{escape(title)}</h3><table>{lines}</table>"


def _coded(text: str) -> str:
    """A text as HTML, with text between backticks as code."""
    return CODE.sub(r"<code>\1</code>", escape(text))


def _anchor(tag: str) -> str:
    return escape(tag.lower().replace(" ", "-"))
