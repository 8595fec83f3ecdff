"""The TypeScript client for tests: programs, pages and a proxy."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.tools import NODE
from tests.support.people import Person, fetch
from tests.support.servers import SCRIPT_DEADLINE

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "clients/typescript/src"
PROGRAMS = Path(__file__).parent / "typescript"
SCOPES = (
    "assignments:write", "batch:write", "cars:write", "changes:read", "events:write", "groups:write",
    "installations:write", "operations:read", "positions:read", "products:read", "users:write",
    "webhooks:write",
)  # fmt: skip


def credentials(person: Person, url: str) -> dict[str, Any]:
    """The options of a client with a new machine client."""
    made = person.put("/clients", {"name": "TypeScript", "scopes": SCOPES})
    assert made.status_code == 201, made.text
    return {
        "url": f"{url}/v3",
        "apiKey": person.api_key,
        "customerId": person.customer,
        "clientId": made.json()["clientId"],
        "clientSecret": made.json()["clientSecret"],
    }


def run(
    program: str,
    module: Path | str,
    given: Any,
    *,
    node: Path | str = NODE,
    options: tuple[str, ...] = (),
    place: Path = PROGRAMS,
) -> Any:
    """Run a program with the module of the client.

    Returns the JSON that it prints.
    """
    ran = subprocess.run(
        [node, *options, place / program, str(module)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=SCRIPT_DEADLINE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def without_types(path: Path) -> bytes:
    """The source as JavaScript. Node replaces types by blanks."""
    program = (
        "const { stripTypeScriptTypes } = require('node:module');"
        "process.stdout.write(stripTypeScriptTypes(require('node:fs').readFileSync(process.argv[1], 'utf8')))"
    )
    ran = subprocess.run(
        [NODE, "--no-warnings", "-e", program, path], capture_output=True, timeout=SCRIPT_DEADLINE, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def put_package(target: Path) -> None:
    """Write the package with JavaScript made from the sources, without a compiler."""
    (target / "dist").mkdir(parents=True)
    shutil.copy(SOURCES.parent / "package.json", target)
    for path in SOURCES.glob("*.ts"):
        text = re.sub(rb'(from "\./\w+)\.ts"', rb'\1.js"', without_types(path))
        (target / f"dist/{path.stem}.js").write_bytes(text)


def put_npm(directory: Path) -> Path:
    """Write a program `npm` that installs these sources.

    Returns its directory.
    """
    put_package(directory / "package")
    version = json.loads((SOURCES.parent / "package.json").read_text())["version"]
    programs = directory / "bin"
    programs.mkdir()
    (programs / "npm").write_text(
        "#!/bin/sh\n"
        f'case "$*" in "install "*"/packages/keyrack-client-{version}.tgz") ;; *) echo "npm $*" >&2; exit 1 ;; esac\n'
        f'mkdir -p node_modules && cp -r "{directory}/package" node_modules/keyrack-client\n'
    )
    (programs / "npm").chmod(0o755)
    return programs


Respond = Callable[[http.server.BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes] | None]


@contextmanager
def answering(respond: Respond) -> Iterator[str]:
    """A server in threads that answers by the function. None closes the connection without a response."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            answer = respond(self)
            if answer is None:
                self.close_connection = True
                return
            status, headers, body = answer
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def page(modules: dict[str, bytes]) -> Iterator[str]:
    """An empty page at the address, and modules below it."""

    def respond(request: http.server.BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/":
            return 200, {"Content-Type": "text/html"}, b"<!doctype html><title>page</title>"
        if request.path in modules:
            return 200, {"Content-Type": "text/javascript; charset=utf-8"}, modules[request.path]
        return 404, {}, b""

    with answering(respond) as url:
        yield url


@contextmanager
def losing_every_second_response(url: str, lost: list[str]) -> Iterator[str]:
    """A proxy that forwards every request and loses each second response."""
    lock = threading.Lock()
    requests = 0

    def respond(request: http.server.BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes] | None:
        nonlocal requests
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        own = {"host", "connection", "content-length", "accept-encoding"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in own}
        headers["Accept-Encoding"] = "identity"
        answer = fetch(request.command, url + request.path, headers=headers, content=body)
        with lock:
            requests += 1
            is_lost = requests % 2 == 1
        if is_lost:
            lost.append(f"{request.command} {request.path}")
            return None
        hidden = {"connection", "content-length", "content-encoding", "transfer-encoding"}
        return answer.status_code, {k: v for k, v in answer.headers.items() if k not in hidden}, answer.content

    with answering(respond) as address:
        yield address
