"""Imports go one way, and what comes from outside has one door each. Read from the source, whatever is installed."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = SOURCE / "keyrack"

# A part imports from its own layer and from those above it. A new module is put where it belongs.
LAYERS = [
    "settings errors logs fields lines verification __version__",
    "postgres postgres_binaries postgres_layout postgres_probe db listener migrations bodies resources telematics",
    "outcomes samples odata",
    "auth limits batching reads sending partitions webhooks",
    "operations lanes claims delivery telemetry privacy",
    "api",
    "idempotency intake",
    "endpoints",
    "schemas openapi reference tables edge connections app worker mqtt",
    "processes",
    "simulator demo commands cli __main__",
]
LAYER = {part: number for number, layer in enumerate(LAYERS) for part in layer.split()}

# Who may know a library: the design gives each one door
DOORS = {
    "falcon": {"app"},
    "uvicorn": {"connections", "processes"},
    "uvloop": {"processes"},
    "httptools": set[str](),
    "starlette": set[str](),
    "fastapi": set[str](),
    "sqlalchemy": {"db", "migrations"},
    "alembic": {"db", "migrations"},
    "typer": {"cli", "commands"},
    "aiohttp": {"sending", "simulator"},
    "standardwebhooks": {"delivery", "sending", "webhooks", "verification", "simulator"},
    "aiomqtt": {"mqtt"},
    "joserfc": {"auth"},
    "argon2": {"auth"},
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


def part(module: str) -> str:
    """keyrack.odata.syntax -> odata"""
    return module.split(".")[1] if "." in module else module


@pytest.mark.parametrize("module", [module for module in MODULES if module != "keyrack"])
def test_imports_go_one_way(module: str) -> None:
    own = part(module)
    assert own in LAYER, f"say in LAYERS where {own} belongs"
    for name in imported(MODULES[module]):
        if name.startswith("keyrack."):
            assert LAYER[part(name)] <= LAYER[own], f"{module} imports {name}"


def test_nothing_imports_in_a_circle() -> None:
    graph = {module: {name for name in imported(path) if name in MODULES} for module, path in MODULES.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_the_layers_name_what_is_there() -> None:
    assert set(LAYER) - {"__version__"} <= {part(module) for module in MODULES}


@pytest.mark.parametrize("library", DOORS)
def test_a_library_has_its_doors(library: str) -> None:
    found = {part(module) for module, path in MODULES.items() if library in {n.split(".")[0] for n in imported(path)}}
    assert found <= DOORS[library]


def test_an_endpoint_knows_no_http_library() -> None:
    outside = {
        name.split(".")[0]
        for module, path in MODULES.items()
        if part(module) in ("endpoints", "api", "reads")
        for name in imported(path)
    }
    assert outside <= {"__future__", "keyrack", "pydantic", "asyncpg", "structlog"} | STANDARD


STANDARD = {"annotationlib", "asyncio", "collections", "dataclasses", "datetime", "functools", "hashlib", "itertools",
            "json", "math", "re", "secrets", "time", "typing", "urllib", "uuid"}  # fmt: skip
