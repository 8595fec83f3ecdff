"""Requests with invalid or unusual headers, ids, methods and bodies."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from tests.recordings.bench import Bench
from tests.recordings.cast import ALICE
from tests.recordings.session import BASE, Call
from tests.recordings.table import Row, Schema

ALL_METHODS = ("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
PROBLEM = "application/problem+json"
UNKNOWN = {
    "operationId": "00000000-0000-4000-8000-000000000000",
    "deviceId": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "searchDate": "2015-01-01T00:00:00Z",
    "brand": "Nobody",
}
GREATEST = 2147483647
BAD_IDS = ("x", "0", "-1", "2147483648", "1.5", "%20", "01", "%D9%A3")
CUSTOMERS = (None, "", "x", "0", "-1", "99", "2", "2147483648", "1.0", " 1", "1,2")
TYPES: dict[str, Any] = {"null": None, "flag": True, "number": 987654321, "text": "x", "list": [], "object": {}}


def run(bench: Bench) -> None:
    """Send a request to every endpoint in every invalid form."""
    session = bench.session
    for row in session.document.rows:
        session.section = row.tag
        for call, title in _calls(bench, row):
            response = session.record(bench.caller(row), call, f"{row.name}: {title}")
            if response.status < 300:
                bench.clean_up(row, response)
        response = session.record(bench.caller(row), bench.call(row), f"{row.name}: without {BASE}", base="")
        bench.clean_up(row, response)
    session.section = "Methods"
    for path in dict.fromkeys(row.path for row in session.document.rows):
        rows = [row for row in session.document.rows if row.path == path]
        methods = {row.method for row in rows}
        for method in ALL_METHODS:
            if method not in methods and not (method == "HEAD" and path == "/live"):
                call = bench.call(rows[0])
                session.record(bench.caller(rows[0]), Call(method, call.path), f"{method} {path}")
    session.record(bench.cast.owner, Call("GET", "/nothing"), "GET of a path that is not there")
    session.record(bench.cast.owner, Call("GET", "/cars/"), "GET with a slash at the end")
    session.record(bench.cast.owner, Call("GET", "//cars"), "GET with two slashes")
    session.record(bench.cast.owner, Call("GET", "/CARS"), "GET in upper case")


def _calls(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    """Invalid calls with their titles."""
    yield from _ids(bench, row)
    yield from _queries(bench, row)
    yield from _conditions(bench, row)
    if row.is_of_customer:
        for value in CUSTOMERS if row.method == "GET" else CUSTOMERS[:3]:
            call = bench.call(row)
            call.headers["Customer-ID"] = value
            yield call, f"Customer-ID {value!r}"
    if row.takes_form or row.body is not None or row.path.startswith("/ingest"):
        yield from _forms(bench, row)
    if row.body is not None and not row.path.startswith("/ingest"):
        yield from _members(bench, row)


def _ids(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    for name in row.ids:
        unknown = UNKNOWN.get(name, GREATEST)
        yield bench.call(row, ids={name: unknown}), f"unknown {name}"
        call = bench.call(row, ids={name: unknown})
        call.headers["Accept"] = PROBLEM
        yield call, f"unknown {name}, as a problem"
        if name in bench.fleet.neighbour:
            yield bench.call(row, ids={name: bench.fleet.neighbour[name]}), f"{name} of another customer"
        for value in BAD_IDS if row.method == "GET" else BAD_IDS[:3]:
            yield bench.call(row, ids={name: value}), f"{name} {value!r}"


def _queries(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    for text, title in (
        ("$unknown=1", "unknown option"),
        ("other=1", "unknown parameter"),
        ("%ff=1", "query that is not UTF-8"),
        ("x=" + "y" * 8192, "query too long"),
    ):
        call = bench.call(row)
        call.path += ("&" if "?" in call.path else "?") + text
        yield call, title


def _conditions(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    cases = [("If-Match", '"other"'), ("If-None-Match", "*")]
    if row.method == "GET":
        cases += [("If-Match", "x"), ("If-None-Match", '"other"'), ("Accept", "text/html"), ("Accept-Encoding", "gzip")]
        cases += [
            ("Keyrack-Position", "yesterday"),
            ("Keyrack-Position", "latest"),
            ("Origin", "https://pages.example.com"),
        ]
    elif ("header", "Idempotency-Key") in row.parameters:
        cases += [("Idempotency-Key", "ü"), ("Prefer", "return=representation"), ("Prefer", "return=minimal")]
        if ("header", "If-Match") in row.parameters:
            cases += [("If-Match", "*"), ("If-Match", "x")]
    for name, value in cases:
        call = bench.call(row)
        call.headers[name] = value
        yield call, f"{name} {value}"


def _forms(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    """Malformed and missing bodies."""
    usual = "application/x-www-form-urlencoded" if row.takes_form else "application/json"
    for title, kind, body in (
        ("no content type", None, b"{}"),
        ("text/plain", "text/plain", b"{}"),
        ("no body", usual, None),
        ("empty body", usual, b""),
        ("malformed JSON", usual, b'{"name": '),
        ("not UTF-8", usual, b'{"name": "\xff"}'),
        ("a number", usual, b"1"),
        ("null", usual, b"null"),
        ("an empty list", usual, b"[]"),
        ("an empty object", usual, b"{}"),
        ("NaN", usual, b'{"name": NaN}'),
        ("two values", usual, b"{} {}"),
        ("deep nesting", usual, b"[" * 200 + b"]" * 200),
        ("another charset", f"{usual}; charset=latin-1", b"{}"),
        ("a packed body", usual, b"\x1f\x8b"),
    ):
        call = bench.call(row)
        call.body = body
        call.headers["Content-Type"] = kind
        yield call, title
    call = bench.call(row)
    call.headers["Accept"] = PROBLEM
    call.headers["Content-Type"] = "text/plain"
    yield call, "text/plain, as a problem"


def _members(bench: Bench, row: Row) -> Iterator[tuple[Call, str]]:
    """Bodies with invalid members."""
    good = bench.call(row).body or {}  # an optional body is not sent by default
    for title, body in _mutants(row, good):
        call = bench.call(row)
        call.body = body
        yield call, title
    for accept in ("application/json", PROBLEM):
        call = bench.call(row)
        call.body = {"unknown": 1, "other": {"x": []}} if isinstance(good, dict) else [{"unknown": 1}]
        call.headers |= {"Prefer": "handling=strict", "Accept": accept}
        yield call, f"unknown members, strictly, as {accept}"
    if isinstance(good, dict):
        text = json.dumps(good)[:-1] + ', "x": 1, "x": 2}'
        call = bench.call(row)
        call.body = text.encode()
        call.headers["Content-Type"] = "application/json"
        yield call, "a member twice"


def _mutants(row: Row, good: Any) -> Iterator[tuple[str, Any]]:
    """The valid body with one member missing or of another type."""
    if isinstance(good, list):
        for name in ("op", "path", "value"):
            for kind, value in TYPES.items():
                step = {**good[0], name: value}
                yield f"{name} is a {kind}", [step]
            yield f"no {name}", [{key: value for key, value in good[0].items() if key != name}]
        yield "no steps", []
        yield "51 steps", good * 51
        for path in _paths(row):
            for kind, value in TYPES.items():
                yield f"{path} becomes a {kind}", [{"op": "replace", "path": path, "value": value}]
            yield f"{path} is removed", [{"op": "remove", "path": path}]
        return
    properties: Schema = (row.body or {}).get("properties", {}) or {name: {} for name in good}
    for name, schema in properties.items():
        for kind, value in TYPES.items():
            yield f"{name} is a {kind}", {**copy.deepcopy(good), name: value}
        yield f"no {name}", {key: value for key, value in good.items() if key != name}
        for title, value in _edges(row, schema):
            yield f"{name} is {title}", {**copy.deepcopy(good), name: value}


def _paths(row: Row) -> list[str]:
    """The paths that a patch may change."""
    step = row.document.resolve((row.body or {}).get("items", {}))
    schema = step.get("properties", {}).get("path", {})
    return schema.get("enum") or [each for each in [schema.get("const")] if each]


def _edges(row: Row, schema: Schema) -> Iterator[tuple[str, Any]]:
    """Values at and beyond the limits of a schema."""
    whole = row.document.resolve(schema)
    types = whole.get("type", [])
    if "string" in types:
        yield "empty", ""
        yield "blank", " \u00a0"
        yield "a text with a zero", "a\0b"
        if "maxLength" in whole:
            yield "a long text", "ä" * (whole["maxLength"] + 1)
    if "integer" in types or "number" in types:
        yield "zero", 0
        yield "negative", -1
        yield "great", 2**31
        yield "a fraction", 1.5
        yield "a text of digits", str(ALICE)
