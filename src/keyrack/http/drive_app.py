"""Serving of the drivers' app at `/drive/`: its files, and its shell at every other address below."""

from __future__ import annotations

from urllib.parse import urlsplit

import falcon.asgi

from keyrack.api.conditional_requests import parse_if_none_match
from keyrack.api.exchange import Response
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import MethodNotAllowed, NotFound, Refusal
from keyrack.drivers.app_files import SHELL, AppFile, load_app_files
from keyrack.http.falcon_responses import put, put_refusal
from keyrack.http.request_state import request_state
from keyrack.http.server_process import ServerProcess

DRIVE = "/drive"  # the base path of the app
DRIVE_API = DRIVE + "/api"  # endpoints of the app, which are rows of the table
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types drive"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "bluetooth=(self)",
    "Referrer-Policy": "no-referrer",
}


class DriveApp:
    """The handler of all addresses of the app but its endpoints."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    async def serve(self, http: falcon.asgi.Request, reply: falcon.asgi.Response, **_: str) -> None:
        """Respond with a file, the shell, a redirect or 404."""
        request_state(http.scope).route = DRIVE
        try:
            put(reply, await self._server.compression.packed(http, _answer(http, self._server.settings.drive_url)))
        except Refusal as refusal:
            put_refusal(http, reply, refusal, self._server.settings)


def _answer(http: falcon.asgi.Request, drive_url: str | None) -> Response:
    if http.path == DRIVE_API or http.path.startswith(DRIVE_API + "/"):
        raise NotFound(NOTHING_HERE)
    if http.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(["GET"])
    if drive_url and http.get_header("Host") != urlsplit(drive_url).netloc:
        return Response(308, headers={**HEADERS, "Location": f"{drive_url}{DRIVE}/"})
    if http.path == DRIVE and http.scope["raw_path"] == DRIVE.encode():
        return Response(308, headers={**HEADERS, "Location": DRIVE + "/"})
    return _response(_file(http.path.removeprefix(DRIVE + "/")), http.get_header("If-None-Match"))


def _file(name: str) -> AppFile:
    """The file, or the shell for the address of a page. A page's name has no dot, so a missing file is a 404."""
    files = load_app_files()
    if name in files:
        return files[name]
    if "." in name.rpartition("/")[2]:
        raise NotFound(NOTHING_HERE)
    return files[SHELL]


def _response(file: AppFile, known: str | None) -> Response:
    headers = {**HEADERS, "ETag": file.tag}
    tags = parse_if_none_match(known or "")
    if matched_tag := tags.get(file.tag):
        return Response(304, headers={**headers, "ETag": matched_tag})
    return Response(200, file.content, headers, file.media_type, is_constant=True)
