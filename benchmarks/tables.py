"""Tables of benchmarks: printed with their origin, and written into documents.

A table is a section of Markdown that begins with a marker. A document has the same marker, and one at the section's
end.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIRECTORIES = (ROOT / "docs", ROOT / "benchmarks")
MARKER = re.compile(r"^<!-- benchmark: (?P<name>[a-z]+ [a-z-]+) -->\n", re.MULTILINE)
END = "<!-- end of benchmark -->\n"
# Figures depend on these paths. A table that was written before does not count as a change
MEASURED = ("src", "benchmarks", "tests", "requirements", "pyproject.toml")


class TableError(Exception):
    """A table that cannot be written into a document."""


def table(name: str, *columns: str) -> None:
    """Begin the section `name` (the benchmark's name and a word): marker, origin, and the table's head."""
    print(f"\n<!-- benchmark: {name} -->\n{origin()}\n\n{_row(columns)}\n{_row(['---'] * len(columns))}", flush=True)


def row(*cells: object) -> None:
    """Print one row of the current table."""
    print(_row(cells), flush=True)


def note(text: str) -> None:
    """Print a line of text below the table."""
    print(f"\n{text}", flush=True)


def _row(cells: object) -> str:
    assert isinstance(cells, list | tuple)
    return "|" + "|".join(f" {cell} " if str(cell) not in ("", "---") else str(cell) or " " for cell in cells) + "|"


@functools.cache
def origin() -> str:
    """The sentence that names a table's commit, day and machine."""
    day = datetime.now(UTC)
    return f"Taken at {_commit()} on {day.day} {day:%B %Y}, on {machine()}, Python {platform.python_version()}."


def _commit() -> str:
    """The commit of the checkout, and whether files differ from it."""
    commit = git("rev-parse", "--short", "HEAD")
    if not commit:
        return "an unknown commit"
    return f"commit `{commit}`" + (" with changes" if git("status", "--porcelain", "--", *MEASURED) else "")


def git(*arguments: str) -> str:
    """The output of a command of Git, empty without Git or a repository."""
    try:
        result = subprocess.run(["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return result.stdout.strip()


def machine() -> str:
    """Cores, processor and memory of this machine, without its name."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "unknown processor",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({model}) with {memory:.0f} GiB and a load of {os.getloadavg()[0]:.1f}"


def sections(output: str) -> dict[str, str]:
    """Split the output of a benchmark into sections by name, each without its marker."""
    parts = MARKER.split(output)
    return {name: text.strip() + "\n" for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def places(*directories: Path) -> dict[str, Path]:
    """The document of each section, in docs/ and benchmarks/ by default.

    Raises TableError if two documents have the same section.
    """
    found: dict[str, Path] = {}
    for document in sorted(file for directory in directories or DIRECTORIES for file in directory.glob("*.md")):
        for match in MARKER.finditer(document.read_text()):
            name = match["name"]
            if name in found:
                raise TableError(f"The table '{name}' is in {found[name].name} and in {document.name}.")
            found[name] = document
    return found


def write(tables: Mapping[str, str], *directories: Path) -> None:
    """Replace these sections in the documents. Raises TableError if a section is in no document."""
    found = places(*directories)
    if missing := sorted(set(tables) - set(found)):
        raise TableError(f"No document has the marker of the table '{missing[0]}': <!-- benchmark: {missing[0]} -->")
    for name, text in tables.items():
        document = found[name]
        document.write_text(_replaced(document, name, text))


def _replaced(document: Path, name: str, text: str) -> str:
    before, marker, rest = document.read_text().partition(f"<!-- benchmark: {name} -->\n")
    old, end, after = rest.partition(END)
    if not end or MARKER.search(old):
        raise TableError(f"The table '{name}' in {document.name} has no end: {END.strip()}")
    return f"{before}{marker}\n{text}\n{end}{after}"
