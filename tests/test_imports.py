"""Imports go one way, and what comes from outside has one door each. Read from the source, whatever is installed."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from keyrack.endpoints import ALL

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = SOURCE / "keyrack"

# A room imports from its own floor and from those below it. A new module is put into the room that it belongs to.
FLOORS = [
    "__main__ cli commands",
    "demo simulator moving",
    "client",
    "processes housekeeping monitoring backups doctor",
    "console",
    "http",
    "documents",
    "endpoints",
    "api",
    "mail",
    "federation",
    "access",
    "assignments",
    "changes",
    "keys",
    "webhooks",
    "telemetry",
    "odata",
    "model",
    "vault",
    "database",
    "embedded",
    "settings errors reasons logs loops metrics systemd tracing __version__",
]
FLOOR = {room: number for number, floor in enumerate(reversed(FLOORS)) for room in floor.split()}

# The doors of a room: the modules through which the others enter it. "" stands for the names of the package itself.
DOORS = {
    "access": {
        "apps",
        "auth",
        "caller",
        "clients",
        "changed",
        "codes",
        "passkeys",
        "steps",
        "devices",
        "digests",
        "erasing",
        "invitations",
        "owners",
        "passwords_anew",
        "grants",
        "keys",
        "limits",
        "passwords",
        "privacy",
        "refusals",
        "registry",
        "sessions",
        "signing",
        "signing_in",
        "tokens",
    },
    "api": {
        "conditions",
        "endpoint",
        "exchange",
        "following",
        "held",
        "idempotency",
        "ids",
        "items",
        "limited",
        "lists",
        "live",
        "log",
        "parameters",
        "reading",
        "reads",
        "representation",
        "spool",
        "topics",
    },
    "assignments": {"asking", "attendance", "holds", "overlaps", "rounds", "rules"},
    "backups": {"aftermath", "asking", "checking", "drilling", "planning", "restoring", "shelf", "taking", "wal"},
    "changes": {
        "checkpoints",
        "epochs",
        "erasing",
        "exporting",
        "exports",
        "feed",
        "fence",
        "inquiry",
        "keys",
        "notes",
        "numbering",
        "proving",
        "publishing",
        "recording",
        "replaying",
        "retention",
        "verifying",
    },
    "client": {"answers", "credentials", "patience", "session"},
    "console": {"", "files", "tiles"},
    "database": {
        "acting",
        "within",
        "archiving",
        "batching",
        "connection",
        "connector",
        "heartbeat",
        "listener",
        "notices",
        "partitions",
        "pieces",
        "planning",
        "positions",
        "presence",
        "replica",
        "replicas",
        "schema",
        "session",
        "shares",
        "standbys",
        "telling",
        "trouble",
    },
    "demo": {"", "drawings"},
    "doctor": {""},
    "documents": {"errors", "metrics", "openapi", "reference", "refusals", "tables"},
    "embedded": {"archive", "binaries", "layout", "locks", "probe", "server", "upgrading"},
    "endpoints": {"", "documents", "health"},
    "federation": {"accounts", "addresses", "providers", "sign_on", "states", "troubles"},
    "http": {"app", "compression", "connections", "links", "pages", "single_sign_on"},
    "keys": {
        "authority",
        "box.firmware",
        "box.opening",
        "box.state",
        "boxlog",
        "codes",
        "cose",
        "enrolment",
        "issuing",
        "link",
        "lists",
        "members",
        "moments",
        "p256",
        "phone",
        "places",
        "public_key",
    },
    "mail": {"sending", "texts"},
    "metrics": {"exposition", "instruments", "measures"},
    "model": {
        "binary",
        "bodies",
        "changes",
        "faults",
        "fields",
        "kinds",
        "limits",
        "meanings",
        "members",
        "patches",
        "permissions",
        "resources",
        "telematics",
        "texts",
    },
    "monitoring": {"backlog", "family", "judging", "limits", "picture", "reporting"},
    "moving": {"arriving", "comparing", "exporting", "manifest", "source", "taking"},
    "odata": {""},
    "processes": {"process", "supervisor", "worker"},
    "settings": {""},
    "simulator": {"", "garage"},
    "telemetry": {"correction", "history", "ingest", "lines", "mqtt", "samples", "stretches"},
    "tracing": {"exporting", "places", "spans"},
    "vault": {"files", "holdings", "keeping", "master", "rotation", "sealing"},
    "webhooks": {
        "certificates",
        "delivery",
        "erasing",
        "failures",
        "forgetting",
        "guard",
        "numbered",
        "outcomes",
        "publishing",
        "registry",
        "telling",
        "troubles",
        "verification",
    },
}

# Which rooms know a library
LIBRARIES = {
    "falcon": {"http"},
    "opentelemetry": {"tracing"},
    "prometheus_client": {"metrics"},
    "uvicorn": {"http", "monitoring", "processes"},
    "uvloop": {"processes"},
    "httptools": set[str](),
    "starlette": set[str](),
    "fastapi": set[str](),
    "sqlalchemy": {"database"},
    "alembic": {"database"},
    "typer": {"cli", "commands"},
    "aiohttp": {"client", "federation", "webhooks"},
    "standardwebhooks": {"simulator", "webhooks"},
    "aiomqtt": {"telemetry"},
    "aiosmtplib": {"commands", "mail"},
    "babel": {"console"},
    "jinja2": {"console"},
    "joserfc": {"access", "federation"},
    "argon2": {"access"},
    "webauthn": {"access"},
    "segno": {"console"},
    "cryptography": {"access", "api", "changes", "keys", "vault"},
    "email_validator": {"model"},
}

MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The full names that a module imports, wherever in it."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say from keyrack what is from keyrack"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES or node.module == "keyrack" else str(node.module)


def room(module: str) -> str:
    """keyrack.odata.syntax -> odata"""
    return module.split(".")[1] if "." in module else module


def crossings(path: Path) -> Iterator[tuple[str, str]]:
    """What a module imports from Keyrack: the module, and the name in it, or "" for the module itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("keyrack."):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole, "") if whole in MODULES else (node.module, alias.name)


@pytest.mark.parametrize("module", [module for module in MODULES if module != "keyrack"])
def test_imports_go_down(module: str) -> None:
    own = room(module)
    assert own in FLOOR, f"say in FLOORS where {own} belongs"
    for name in imported(MODULES[module]):
        if name.startswith("keyrack."):
            assert FLOOR[room(name)] <= FLOOR[own], f"{module} imports {name}"


@pytest.mark.parametrize("module", [module for module in MODULES if module != "keyrack"])
def test_a_room_is_entered_by_its_doors(module: str) -> None:
    for target, name in crossings(MODULES[module]):
        if room(target) == room(module) or room(target) not in DOORS:
            continue
        door = target.removeprefix(f"keyrack.{room(target)}").removeprefix(".")
        assert door in DOORS[room(target)], f"{module} enters {room(target)} by {target}"
        assert not name.startswith("_"), f"{module} imports {name} of {target}"


def test_every_package_has_doors_and_every_door_is_used() -> None:
    packages = {room(module) for module in MODULES if module.count(".") > 1} - {"commands"}
    assert set(DOORS) == packages
    entered = {
        target for module, path in MODULES.items() for target, _ in crossings(path) if room(target) != room(module)
    }
    unused = {f"keyrack.{name}.{door}".rstrip(".") for name, doors in DOORS.items() for door in doors} - entered
    assert not unused


# A migration that was released stays as it was
@pytest.mark.parametrize("module", [module for module in MODULES if ".versions." not in module])
def test_a_module_fits_on_a_few_screens(module: str) -> None:
    assert len(MODULES[module].read_text().splitlines()) <= 300, f"{module} wants to be two rooms"


def test_the_first_look_shows_some_twenty_entries() -> None:
    entries = {room(module) for module in MODULES if module != "keyrack"}
    assert len(entries) <= 38, sorted(entries)


def test_nothing_imports_in_a_circle() -> None:
    graph = {module: {name for name in imported(path) if name in MODULES} for module, path in MODULES.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_the_floors_name_what_is_there() -> None:
    assert set(FLOOR) - {"__version__"} <= {room(module) for module in MODULES}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_has_its_doors(library: str) -> None:
    found = {room(module) for module, path in MODULES.items() if library in {n.split(".")[0] for n in imported(path)}}
    assert found <= LIBRARIES[library]


def test_an_endpoint_knows_no_http_library() -> None:
    outside = {
        name.split(".")[0]
        for module, path in MODULES.items()
        if room(module) in ("endpoints", "api")
        for name in imported(path)
    }
    assert (
        outside
        <= {"__future__", "keyrack", "pydantic", "pydantic_core", "asyncpg", "cryptography", "structlog"} | STANDARD
    )


STANDARD = {"annotationlib", "asyncio", "base64", "binascii", "collections", "contextlib", "contextvars",
            "dataclasses", "datetime", "functools", "hashlib", "inspect", "itertools", "json", "math", "pathlib",
            "re", "secrets", "tempfile", "time", "typing", "urllib", "uuid", "zoneinfo"}  # fmt: skip


def test_the_console_reads_and_writes_through_the_table_alone() -> None:
    """No SQL, no room below the edge but what a page is made of; and every row that it asks for is there."""
    allowed = {"api", "console", "errors", "http", "logs", "reasons", "settings"}
    rows = {(row.method, row.path) for row in ALL}
    for module in (module for module in MODULES if room(module) == "console"):
        entered = {room(name) for name in imported(MODULES[module]) - TEXTS if name.startswith("keyrack.")}
        assert entered <= allowed, f"{module} enters {entered - allowed}"
        source = MODULES[module].read_text()
        assert "LiteralString" not in source, module
        assert set(called(source)) <= rows, f"{module} asks for {set(called(source)) - rows}"


def test_who_serves_nothing_carries_nothing_that_answers() -> None:
    """A worker, a parent of others and a command are quick to start and small: what is heavy comes where it is used."""
    heavy = {"alembic", "sqlalchemy", "falcon", "jinja2", "opentelemetry", "keyrack.console", "keyrack.endpoints"}
    script = "import keyrack.commands.run, keyrack.processes.supervisor, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "keyrack.processes.worker" in loaded
    assert sorted(heavy.intersection(loaded)) == []


# Words and no more: why something failed, what a spreadsheet makes of a text, and what roles may, by which pages leave
# out what their visitor may not
TEXTS = {
    "keyrack.webhooks.failures",
    "keyrack.webhooks.troubles",
    "keyrack.model.texts",
    "keyrack.model.permissions",
}


def called(source: str) -> Iterator[tuple[str, str]]:
    """Method and path of each call of a visit."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
            method, path = node.args[:2]
            if isinstance(method, ast.Constant) and isinstance(path, ast.Constant):
                yield str(method.value), str(path.value)
