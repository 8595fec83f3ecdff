"""The gallery: every common part of the console on one page, served as the console serves its pages. Tests only."""

from __future__ import annotations

import gettext
import http.server
import json
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jinja2
from markupsafe import Markup

import keyrack

HERE = Path(__file__).parent
CONSOLE = Path(keyrack.__file__).parent / "console"
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'self'"
)
PEOPLE = [
    {
        "value": number,
        "label": f"Person {number}",
        "detail": f"p{number}@example.com",
        "chosen": f"Person {number}, p{number}@example.com",
    }
    for number in range(1, 46)
]

TEMPLATES = {
    "/list": "list.html",
    "/dialog": "gallery_dialog.html",
    "/plain": "gallery_plain.html",
    "/console/sign-in": "gallery_plain.html",
    "/fact": "gallery_fact.html",
}
COLUMNS = [
    {"key": "name", "label": "Name", "sort": "?sort=name", "sorted": "ascending"},
    {"key": "standing", "label": "State", "kind": "status"},
    {"key": "plate", "label": "License plate", "sort": "?sort=plate"},
    {"key": "vin", "label": "VIN", "kind": "code", "priority": 3},
    {"key": "next", "label": "Next booking", "kind": "time", "priority": 2},
    {"key": "odometer", "label": "Odometer, km", "kind": "number", "priority": 2, "sort": "?sort=odometer"},
]
STANDINGS = [("good", "Active"), ("idle", "Free"), ("warn", "Not reporting"), ("bad", "Failed")]


def moment(time: str) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(time, f"{datetime.fromisoformat(time):%d %b %Y, %H:%M}")


def ago(time: str) -> Markup:
    return Markup("<span data-relative>{}</span>").format(moment(time))


def rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number, "href": f"/cars/{number}", "name": f"Pool car {number}",
            "cells": {
                "name": f"Pool car {number}", "plate": f"B KR {100 + number}", "vin": f"WVWZZZE1ZMP{number:06}",
                "standing": dict(zip(("kind", "word"), STANDINGS[number % 4], strict=True)),
                "next": moment("2026-11-24T08:00:00Z") if number % 3 else None,
                "odometer": f"{number * 8312:,}",
            },
        }
        for number in range(1, count + 1)
    ]  # fmt: skip


def a_list(state: str) -> dict[str, Any]:
    """The variable `list` of list.html."""
    return {
        "title": "Cars", "lead": "", "search": "Search cars", "address": "/list", "sign": "cars", "q": "", "kept": [],
        "whole": "/list", "chips": [{"text": "Brand: Volkswagen", "remove": "/list"}],
        "odata": "brand eq 'Volkswagen'", "columns": COLUMNS, "rows": rows(25), "shown": "1 to 25 of 812",
        "all_columns": [{"key": c["key"], "label": c["label"], "shown": True} for c in COLUMNS],
        "inputs": [
            {"name": "brand", "label": "Brand", "input": "select", "options": [("vw", "Volkswagen")], "value": "vw"},
        ],
        "own": "", "wrong": None, "here": "/list", "topics": [], "back": None, "matching": "All 812 that match",
        "kept_by_filters": [], "kept_by_columns": [], "compact": False, "walked": False, "ends": "",
        "previous": None, "next": "/list?page=2", "csv": "/csv", "state": state,
        "actions": [{"text": "Add to a group", "action": "/form", "sign": "groups"}],
        "adds": [{"text": "Add car", "href": "/dialog", "sign": "add"}],
        "never": {"title": "No cars yet", "text": "A car is what people are given. Add the first one."},
    }  # fmt: skip


class Gallery:
    """The pages, drawn as the console draws them."""

    def __init__(self) -> None:
        loader = jinja2.FileSystemLoader([CONSOLE / "templates", HERE])
        self.templates = jinja2.Environment(
            loader=loader,
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            extensions=["jinja2.ext.i18n"],
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals["asset"] = lambda name: f"/assets/{name}"
        self.templates.install_gettext_translations(gettext.NullTranslations(), newstyle=True)

    def page(self, path: str, query: dict[str, list[str]], *, partial: bool = False) -> str:
        person = {
            "user_name": query.get("as", ["kim@example.com"])[0],
            "customers": [{"id": 3, "name": "Stadtwerke Musterhausen"}, {"id": 4, "name": "Northern Rentals"}],
            "language": "en",
            "time_zone": "Europe/Berlin (CET)",
            "zone": "Europe/Berlin",
            "theme": query.get("theme", ["system"])[0],
        }
        name = "listing.html" if partial and path == "/list" else TEMPLATES.get(path, "gallery.html")
        return self.templates.get_template(name).render(
            visit={
                "person": person,
                "customer": 3,
                "root": "/console",
                "base": "/console/3",
                "may": lambda permission: True,
                "heard": str.strip,
            },
            language=person["language"],
            theme=person["theme"],
            section="cars",
            back="/gallery",
            columns=COLUMNS,
            rows=rows(4),
            list=a_list(query.get("state", ["rows"])[0]),
            moment=moment,
            ago=ago,
        )


def handler(gallery: Gallery) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one part, otherwise it waits for the acknowledgement of its first

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = parse_qs(address.query, keep_blank_values=True)
            if address.path.startswith("/assets/"):
                name = address.path.removeprefix("/assets/")
                found = [room / name for room in (CONSOLE / "web", CONSOLE / "assets") if (room / name).is_file()]
                kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0] or "text/plain"
                self.answer(200 if found else 404, found[0].read_bytes() if found else b"", kind)
            elif address.path == "/options":
                asked = query["q"][0].lower()
                found_people = [person for person in PEOPLE if asked in person["label"].lower()]
                answer = {"options": found_people[:20], "total": len(found_people)}
                self.answer(200, json.dumps(answer).encode(), "application/json")
            elif address.path.startswith("/status/"):
                self.answer(int(address.path.rpartition("/")[2]), b"", "text/html")
            else:
                partial = self.headers.get("HX-Request-Type") == "partial"
                self.answer(200, gallery.page(address.path, query, partial=partial).encode(), "text/html")

        def do_POST(self) -> None:
            """An expired session: each request ends at the sign-in page."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.answer(303, b"", "text/html", {"Location": "/console/sign-in"})

        def answer(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
            self.send_response(status)
            charset = "" if kind.startswith("image") else "; charset=utf-8"
            headers = {"Content-Type": kind + charset, "Content-Length": str(len(body)), **(more or {})}
            kept = "max-age=600" if self.path.startswith("/assets/") else "no-store"
            for name, value in {**headers, "Content-Security-Policy": POLICY, "Cache-Control": kept}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def served() -> Iterator[str]:
    """The address of the gallery while it is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(Gallery()))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
