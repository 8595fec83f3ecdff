"""Tables of benchmarks as data: one file in JSON for each run.

A run has the tables that the benchmarks print. Earlier tables come from the versions of benchmarks/results.md in Git.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from benchmarks.tables import END, MARKER, ROOT, git, sections

RUNS = ROOT / "benchmarks" / "runs"
DOCUMENTS = ("benchmarks/results.md", "docs/performance.md")  # the second one had the tables before the first existed
ORIGIN = re.compile(
    r"^Taken at commit `(?P<commit>[0-9a-f]{7,40})`(?P<changes> with changes)?"
    r" on (?P<day>\d{1,2} [A-Z][a-z]+ \d{4})(?:, on (?P<machine>.+), Python [\d.]+)?\.$",
    re.MULTILINE,
)


class RunError(Exception):
    """A file of a run that cannot be read."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One table of a run, with its commit, day and machine."""

    table: str
    commit: str
    has_changes: bool  # files differed from the commit
    day: date
    machine: str | None  # None in early tables
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def cell(self, row: str, column: str) -> str | None:
        """The text of a cell. None if the table has no such row or column.

        `row` may be the beginning of the row's first cell. Without `column` it is the second one.
        """
        exact = [cells for cells in self.rows if cells[0] == row]
        cells = next(iter(exact or [cells for cells in self.rows if cells[0].startswith(row)]), None)
        if cells is None or (column and column not in self.columns):
            return None
        place = self.columns.index(column) if column else 1
        return cells[place] if place < len(cells) else None


def parse(name: str, section: str) -> Measurement | None:
    """The table of a section. None if the section does not say at which commit it was taken."""
    origin = ORIGIN.search(section)
    if origin is None:
        return None
    lines = [_cells(line) for line in section.splitlines() if line.startswith("|")]
    columns, rows = lines[0], [cells for cells in lines[1:] if set("".join(cells)) - {"-"}]
    day = datetime.strptime(origin["day"], "%d %B %Y").replace(tzinfo=UTC).date()
    return Measurement(
        name, origin["commit"], origin["changes"] is not None, day, origin["machine"], columns, tuple(rows)
    )


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def write_run(tables: Mapping[str, str], directory: Path = RUNS) -> Path:
    """Write the sections of a run into a new file, and return its path."""
    taken = [measurement for name, text in tables.items() if (measurement := parse(name, text))]
    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    members = [asdict(measurement) | {"day": measurement.day.isoformat()} for measurement in taken]
    path.write_text(json.dumps({"measured": now.isoformat(), "tables": members}, indent=1, ensure_ascii=False) + "\n")
    return path


def read_run(path: Path) -> list[Measurement]:
    """The tables of a run. Raises `RunError`."""
    try:
        return [
            Measurement(
                members["table"], members["commit"], members["has_changes"], date.fromisoformat(members["day"]),
                members["machine"], tuple(members["columns"]), tuple(tuple(row) for row in members["rows"]),
            )
            for members in json.loads(path.read_text())["tables"]
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is not a run of benchmarks: {error!r}") from None


def all_measurements(directory: Path = RUNS) -> list[Measurement]:
    """All tables that were ever taken, oldest first.

    They are those of the files, and of each version of the documents. A commit that Git does not know is the first of
    its day. Raises `RunError`.
    """
    read = [measurement for path in sorted(directory.glob("*.json")) for measurement in read_run(path)]
    read += [measurement for text in _versions() for measurement in _parsed(text)]
    unique: dict[tuple[str, str, date], Measurement] = {}
    for measurement in read:  # the newest version of a document comes first
        unique.setdefault((measurement.table, measurement.commit[:7], measurement.day), measurement)
    order = {commit: place for place, commit in enumerate(_commits())}
    return sorted(unique.values(), key=lambda measurement: (measurement.day, order.get(measurement.commit[:7], -1)))


def _parsed(document: str) -> Iterator[Measurement]:
    for name, text in sections(document).items():
        measurement = parse(name, text.partition(END)[0])
        if measurement is not None:
            yield measurement


def _commits() -> Sequence[str]:
    """The first seven digits of all commits, oldest first."""
    return [line[:7] for line in git("log", "--reverse", "--format=%H").splitlines()]


def _versions() -> Iterator[str]:
    """The text of each version of the documents."""
    for document in DOCUMENTS:
        for commit in git("log", "--format=%H", "--", document).split():
            text = git("show", f"{commit}:{document}")
            if MARKER.search(text):
                yield text
