"""The pages on the architecture and CONTRIBUTING.md: diagrams match the code, and names exist."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from keyrack.core.settings import Settings
from keyrack.http.pipeline import PERFORM, RECEIVE, step_names
from keyrack.http.routes import ALL
from keyrack.http.steps import WrapperStep
from tests.docs.code_blocks import ROOT, blocks

SOURCE = ROOT / "src/keyrack"
REQUEST_PATH = "docs/architecture/request-path.md"
PAGES = (
    "docs/architecture.md", REQUEST_PATH, "docs/architecture/order-of-work.md", "docs/architecture/replication.md",
    "docs/architecture/change-log.md", "docs/data-model.md", "docs/glossary.md",
    "CONTRIBUTING.md",
)  # fmt: skip
# A path in the repository or in the package: core/errors, tests/test_layout.py, db/migrations/versions
PATH = re.compile(r"(?<![\w./<{])([a-z_][\w-]*(?:/[\w-]+)+(?:\.\w+)?)(?![\w/<{])")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"[A-Za-z_]\w*")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A name, a dotted name, a parameter or a call, but not a file
PYTHON = re.compile(r"@?[A-Za-z_]\w*(?:\.(?!(?:py|md|toml|json|yml|po|txt)\b)\w+)*(?:=|=?\(.*\))?")
# Words in backticks that are not names of the source
OTHERS = {"GitHub"}


@cache
def package_table() -> Any:
    """docs/package_table.py, which is in no package."""
    spec = spec_from_file_location("package_table", ROOT / "docs/package_table.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_packages_is_current() -> None:
    assert (ROOT / "docs/architecture.md").read_text() == package_table().page(), "run: make docs"


def test_the_diagram_has_the_layers_of_the_contract() -> None:
    drawing = next(block for block in blocks("docs/architecture.md") if "[core]" in block.text)
    rows = [re.findall(r"\[(\w+)\]", line) for line in drawing.text.splitlines()]
    assert [sorted(row) for row in rows if row] == [sorted(layer) for layer in package_table().layers()]


def test_the_diagram_has_the_steps_of_the_pipeline() -> None:
    drawing = next(block for block in blocks(REQUEST_PATH) if block.text.startswith("RECEIVE"))
    lines = [line for line in drawing.text.splitlines() if line.startswith(" ")]
    assert [line.split()[0] for line in lines] == step_names()
    wrappers = [isinstance(step, WrapperStep) for step in (*RECEIVE, *PERFORM)]
    assert ["around the rest" in line for line in lines] == wrappers


def test_each_step_is_used_and_a_read_has_few() -> None:
    assert {name for row in ALL for name in step_names(row)} == set(step_names())
    (car,) = [row for row in ALL if (row.method, row.path) == ("GET", "/cars/{carId}")]
    assert step_names(car) == [
        "prove_primary", "authenticate", "choose_mode", "read_conditions", "read_preferences", "build_request",
        "confirm_primary", "parse_position", "choose_server", "prove_primary", "confirm_read", "retry_deadlocks",
    ]  # fmt: skip


@cache
def modules() -> dict[str, list[Path]]:
    """The modules by the last part of their names."""
    by_name = defaultdict[str, list[Path]](list)
    for path in SOURCE.rglob("*.py"):
        by_name[path.parent.name if path.stem == "__init__" else path.stem].append(path)
    return by_name


@cache
def words() -> frozenset[str]:
    """Every word of the source, the tests and their tools."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    files += [ROOT / name for name in ("Makefile", "pyproject.toml", "mkdocs.yml")]
    return frozenset().union(*(names(path) for path in files if path != Path(__file__)))


@cache
def names(path: Path) -> frozenset[str]:
    return frozenset(NAME.findall(path.read_text()))


def is_path(path: str) -> bool:
    """Whether the repository or the package has this file, folder or module."""
    return any((base / f"{path}{suffix}").exists() for base in (ROOT, SOURCE) for suffix in ("", ".py"))


@pytest.mark.parametrize("page", PAGES)
def test_each_path_exists(page: str) -> None:
    text = re.sub(r"\]\([^)]*\)|https?://\S+", "", (ROOT / page).read_text())
    starts = {path.name for base in (ROOT, SOURCE) for path in base.iterdir()}
    paths = {path for path in PATH.findall(text) if path.partition("/")[0] in starts}
    assert paths and [path for path in sorted(paths) if not is_path(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_each_name_exists(page: str) -> None:
    """A dotted name must exist in the module of its first part."""
    text = (ROOT / page).read_text()
    examples = {word for block in FENCED.findall(text) for word in NAME.findall(block)}
    settings = {f"KEYRACK_{name}".upper() for name in {*Settings.model_fields, *examples}}
    known = words() | examples | settings | OTHERS
    missing: list[str] = []
    for code in sorted({code for code in CODE.findall(FENCED.sub("", text)) if PYTHON.fullmatch(code)}):
        dotted = code.partition("(")[0].strip("@=").split(".")
        files = modules().get(dotted[-2], []) if len(dotted) > 1 else []
        found = is_path("/".join(dotted)) or not files or any(dotted[-1] in names(file) for file in files)
        if not found or not known.issuperset(dotted):
            missing.append(code)
    assert missing == []
