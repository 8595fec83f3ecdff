"""Write the table of packages into docs/architecture.md, from the docstrings of the packages: `make docs`."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
START, END = "<!-- packages: docs/package_table.py -->\n", "<!-- /packages -->\n"


def layers() -> list[list[str]]:
    """The packages by layer, the highest first, as import-linter keeps them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (names,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [re.split(r"\s*[:|]\s*", layer) for layer in names]


def table() -> str:
    """A row for each package: its purpose, its modules for other packages, and what it must not do."""
    lines = ["| Package | Purpose | Entry | Must not |", "|---|---|---|---|"]
    for package in (name for layer in layers() for name in layer):
        source = (ROOT / "src/keyrack" / package / "__init__.py").read_text()
        purpose, _, entry, must_not, *rest = (ast.get_docstring(ast.parse(source)) or "").splitlines()
        must_not = " ".join([must_not, *rest])
        cells = [f"`{package}`", purpose, entry.removeprefix("Entry: "), must_not.removeprefix("Must not: ")]
        lines.append(f"| {' | '.join(cell[0].upper() + cell[1:] for cell in cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the current table."""
    before, rest = PAGE.read_text().split(START)
    _, after = rest.split(END)
    return before + START + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
