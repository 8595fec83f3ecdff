"""Serving of the client packages at `/packages/`, with an index for pip."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import falcon.asgi

import keyrack
from keyrack.api.exchange import Response
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import MethodNotAllowed, NotFound, Refusal
from keyrack.http.falcon_responses import put, put_refusal
from keyrack.http.request_state import request_state
from keyrack.http.server_process import ServerProcess

PACKAGES = "/packages"
SIMPLE = "simple"  # the index of PEP 503
BUILT = Path(keyrack.__file__).parent / "client_packages"  # `make dist` and `make client-packages` build them
NOT_BUILT = "This server has no client packages. Install a release, or run `make client-packages` in the checkout."
MAX_FILES = 20
MAX_BYTES = 1 << 20  # of one file
FILE = re.compile(r"(?P<project>[A-Za-z][\w.-]*?)-\d[\w.!+]*(?:-[\w.-]+)?\.(?P<kind>whl|tar\.gz|tgz)")
FOR_PIP = ("whl", "tar.gz")
MEDIA_TYPES = {"whl": "application/zip", "tar.gz": "application/gzip", "tgz": "application/gzip"}
HTML = "text/html; charset=utf-8"
HEADERS = {"Cache-Control": "no-cache", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A file of a client package."""

    project: str  # in the normal form of PEP 503
    kind: str
    content: bytes
    digest: str


@cache
def load_package_files(directory: Path) -> Mapping[str, PackageFile]:
    """Read the client packages by name. Other files, links and large files are left out."""
    files: dict[str, PackageFile] = {}
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        found = FILE.fullmatch(path.name)
        if found is None or path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
            continue
        content = path.read_bytes()
        project = re.sub(r"[-_.]+", "-", found["project"]).lower()
        files[path.name] = PackageFile(project, found["kind"], content, hashlib.sha256(content).hexdigest())
        if len(files) == MAX_FILES:
            break
    return files


def _package_files() -> Mapping[str, PackageFile]:
    """The client packages. A running server offers them as soon as they are built."""
    files = load_package_files(BUILT)
    if not files:
        load_package_files.cache_clear()
    return files


class PackageIndex:
    """The handler of all addresses below `/packages`. They are public, as the documents are."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **_: str) -> None:
        """Respond with a page, a file, a redirect or 404."""
        request_state(http.scope).route = PACKAGES
        try:
            put(reply, _answer(http))
        except Refusal as refusal:
            put_refusal(http, reply, refusal, self._server.settings)


def _answer(http: falcon.asgi.Request) -> Response:
    if http.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(["GET"])
    files = _package_files()
    if not files:
        raise NotFound(NOTHING_HERE.with_text(NOT_BUILT))
    below = http.path.removeprefix(PACKAGES).strip("/")
    if below in files:
        file = files[below]
        return Response(200, file.content, HEADERS, MEDIA_TYPES[file.kind], is_constant=True)
    links = _links(below, files)
    if not http.scope["raw_path"].endswith(b"/"):  # the links are relative, so that a proxy can add a prefix
        return Response(308, headers={**HEADERS, "Location": f"{(below or PACKAGES).rpartition('/')[2]}/"})
    return Response(200, _page(links), HEADERS, HTML)


def _links(below: str, files: Mapping[str, PackageFile]) -> list[tuple[str, str]]:
    """The addresses and texts of a page. Raises `NotFound`."""
    if below == "":
        return [(f"{SIMPLE}/", f"{SIMPLE}/"), *((name, name) for name in files)]
    for_pip = {name: file for name, file in files.items() if file.kind in FOR_PIP}
    if below == SIMPLE:
        return [(f"{project}/", project) for project in sorted({file.project for file in for_pip.values()})]
    links = [
        (f"../../{name}#sha256={file.digest}", name)
        for name, file in for_pip.items()
        if below == f"{SIMPLE}/{file.project}"
    ]
    if not links:
        raise NotFound(NOTHING_HERE)
    return links


def _page(links: list[tuple[str, str]]) -> bytes:
    rows = "".join(f'<a href="{escape(address)}">{escape(text)}</a><br>\n' for address, text in links)
    head = '<meta charset="utf-8"><meta name="pypi:repository-version" content="1.0"><title>Client packages</title>'
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{rows}</body></html>\n".encode()
