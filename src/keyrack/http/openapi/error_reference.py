"""The error codes as Markdown, as JSON, and as a page.

The `type` of a problem is the address of its code on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import Any

from keyrack.api.endpoint import Endpoint
from keyrack.core.error_codes import FAULTS, RENAMED
from keyrack.http.openapi.error_catalog import ErrorCatalogEntry
from keyrack.http.openapi.reference_page import STYLE, table
from keyrack.http.openapi.responses import REASONS

HEADINGS = REASONS | {200: "Warnings in a response 200"}

HEAD = """# Error codes

This page is generated from the table of endpoints (`keyrack errors --markdown`). Each server shows it at
`/docs/errors`.

By default an error has the body that the spec gives it, mostly plain text. A request in
[strict mode](http.md#strict-or-by-the-spec-keyrack-mode), as by a new machine client, or with
`Accept: application/problem+json` gets a problem (RFC 9457):

```http
GET /v3/cars/4711
Accept: application/problem+json

HTTP/1.1 404 Not Found
Content-Type: application/problem+json
Vary: Accept
X-Request-Id: 5f0c0d1f7a5e4f0e9a0f1b3c5d7e9f11

{"type": "https://keyrack.example.com/docs/errors#car-not-found", "title": "Car not found", "status": 404,
 "detail": "Unable to find a car for the given carId which is assigned to the given customerId.",
 "code": "car-not-found", "traceId": "5f0c0d1f7a5e4f0e9a0f1b3c5d7e9f11"}
```

- A request with `Accept: application/json, application/problem+json` gets JSON, and a problem for an error. If the
  header gives the media type of the spec's body a higher `q`, the error has that body.
- A request with `Accept: application/json` gets a problem in place of plain text, which it does not accept. `*/*`,
  `text/plain` or `text/*` beside it keep the spec's body, except in strict mode.
- Strict mode returns the spec's body only if `Accept` is for plain text alone. Errors of the token endpoint have
  the form of RFC 6749 in both modes.
- `code` identifies the error. It keeps its meaning and its status. Messages may change, so programs use the code.
- `previousCode` is the name of a [renamed code](#renamed-codes) in the previous release.
- `traceId` is the id of the request, which the log also contains. It is the `X-Request-Id` of the request (1 to 128
  letters, digits and `._~+/=:@-`), else the trace id of its `traceparent`, else a generated id.
- `retryAfter` has the seconds of the header `Retry-After`. If it is present, a retry is safe.
- `errors` lists each error in the request: its own `code`, a `detail`, its place, and the `valid` values if there is a
  list of them. The place is a `pointer` into the body (RFC 6901), a `parameter` of the query string with the `position`
  in its value, or a `header`.

| Code in `errors` | Meaning |
|---|---|
"""
RENAMED_CODES = (
    "This release renames these codes. A problem with a renamed code has the old code in `previousCode`. The next"
    " release removes that member. Links to an old code, such as `/docs/errors#leader-unproven`, lead to the new code."
)
PLACE = re.compile(r"`([^`]+)`")

PAGE_STYLE = """
article { border: 1px solid var(--line); border-radius: .5rem; margin: .6rem 0; overflow-wrap: anywhere;
  padding: .7rem .9rem; scroll-margin-top: 1rem }
article:target { border-color: var(--post); box-shadow: 0 0 0 1px var(--post) }
article h3 { font-size: 1rem; margin: 0; display: flex; gap: .2rem .7rem; flex-wrap: wrap; align-items: baseline }
article h3 a { color: inherit; text-decoration: none }
article h3 a:hover { text-decoration: underline } article h3 code { font-weight: 600 }
article h3 span { font-weight: 400; opacity: .8 } article p { margin: .35rem 0 0 }
.said { border-left: 3px solid var(--line); padding-left: .7rem }
.where { font-size: .875rem; opacity: .8 } .where code { font-size: .8125rem }
h2 small { font-size: 1rem; font-weight: 400; opacity: .8 } nav a { font-variant-numeric: tabular-nums }
pre { background: var(--soft); border-radius: .5rem; overflow-x: auto; padding: .7rem .9rem }
"""


def codes_markdown(rows: Iterable[ErrorCatalogEntry]) -> str:
    """docs/errors.md."""
    lines = [HEAD + "\n".join(f"| `{code}` | {meaning} |" for code, meaning in FAULTS.items())]
    for status, several in groupby(rows, lambda row: row.status):
        lines.append(f"\n## {status}: {HEADINGS[status]}")
        for row in several:
            texts = "\n>\n".join(f"> {text}" for text in row.texts)
            anchor = f'\n<a id="{row.previous}"></a>\n' if row.previous else ""
            lines.append(f"{anchor}\n### {row.code}\n\n{texts}\n\n{row.remedy} *{_capital(row.places)}.*")
    lines.append(f"\n## Renamed codes\n\n{RENAMED_CODES}\n\n| Old code | New code |\n|---|---|")
    lines += [f"| `{old}` | [`{new}`](#{new}) |" for old, new in RENAMED.items()]
    return "\n".join(lines) + "\n"


def codes_json(rows: Iterable[ErrorCatalogEntry]) -> list[dict[str, object]]:
    """The table as data: what `keyrack errors --json` prints."""
    return [
        {
            "code": row.code,
            "status": row.status,
            "title": row.title,
            "texts": row.texts,
            "remedy": row.remedy,
            "endpoints": [f"{endpoint.method} {endpoint.path}" for endpoint in row.endpoints],
        }
        for row in rows
    ]


def page(rows: Iterable[ErrorCatalogEntry], public_url: str) -> str:
    """The page as HTML, with an entry for each code, whose anchor is the code."""
    by_status = {status: list(several) for status, several in groupby(rows, lambda row: row.status)}
    links = "".join(f'<a href="#s{status}" title="{HEADINGS[status]}">{status}</a> ' for status in by_status)
    sections = "".join(_section(status, several) for status, several in by_status.items())
    faults = table("Codes in errors", [(code, "", meaning) for code, meaning in FAULTS.items()])
    renamed = table("Renamed codes", [(old, "", f"Now {new}.") for old, new in RENAMED.items()])
    example = (
        f'{{"type": "{public_url}/docs/errors#car-not-found",\n "title": "Car not found",\n "status": 404,\n'
        ' "detail": "Unable to find a car for the given carId which is assigned to the given customerId.",\n'
        ' "code": "car-not-found",\n "traceId": "5f0c0d1f7a5e4f0e9a0f1b3c5d7e9f11"}'
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Keyrack: error codes</title><style>{STYLE}{PAGE_STYLE}</style></head><body>"
        "<header><h1>Error codes</h1><p>A request with <code>Accept: application/problem+json</code> gets errors as"
        " problems (RFC 9457). The <code>type</code> of a problem is the address of its entry on this page. Other"
        " requests get the body of the spec, mostly plain text. The endpoints are in the"
        ' <a href="../docs">reference</a>.</p>'
        f"<pre>{escape(example)}</pre>"
        "<p>A code keeps its meaning and its status; messages may change. <code>traceId</code> is the id of the"
        " request, which the header <code>X-Request-Id</code> and the log also contain. <code>errors</code> lists each"
        " error in the request: its place, its own code, a message, and the <code>valid</code> values if they can be"
        f" listed.</p><nav>{links}</nav></header><main>{sections}<section>{faults}</section>"
        f"<section><p>{_coded(RENAMED_CODES)}</p>{renamed}</section></main></body></html>"
    )


def _section(status: int, rows: list[ErrorCatalogEntry]) -> str:
    entries = "".join(_entry(row) for row in rows)
    return f'<section><h2 id="s{status}">{status} <small>{HEADINGS[status]}</small></h2>{entries}</section>'


def _entry(row: ErrorCatalogEntry) -> str:
    said = "".join(f'<p class="said">{escape(text)}</p>' for text in row.texts)
    name = f'<a href="#{row.code}"><code>{row.code}</code></a><span>{escape(row.title)}</span>'
    anchor = f'<a id="{row.previous}"></a>' if row.previous else ""
    return (
        f'<article id="{row.code}">{anchor}<h3>{name}</h3>{said}<p>{_coded(row.remedy)}</p>'
        f'<p class="where">{_places(row)}</p></article>'
    )


def _places(row: ErrorCatalogEntry) -> str:
    """Where it can come from; endpoints that are named lead to their place in the reference."""
    if "`" not in row.places or row.places.startswith("every"):
        return _coded(_capital(row.places))
    unique = {(endpoint.method, endpoint.path): endpoint for endpoint in row.endpoints}
    return ", ".join(_link(endpoint) for endpoint in unique.values())


def _link(endpoint: Endpoint[Any]) -> str:
    name = f"{endpoint.method}&nbsp;{escape(endpoint.path)}"
    return f'<a href="../docs#{endpoint.doc.operation_id}"><code>{name}</code></a>'


def _coded(text: str) -> str:
    return PLACE.sub(r"<code>\1</code>", escape(text))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
