"""Tables of test functions: record those of a checkout, and find what a later table lacks.

    python tests/golden/collect_names.py collect [CHECKOUT] > table.tsv
    python tests/golden/collect_names.py compare OLD.tsv NEW.tsv [--files MAP.tsv]

`data/test_names.tsv` has the tests of 22783a9, under their present names. `data/moved_tests.tsv` has where each file
went, or why a test was removed.

A table has the columns file, function and number of cases. MAP has the columns old file and new file; it names only the
files that have moved. `compare` ends with status 1 if a function is missing or has fewer cases.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

# File, function (with its class) and parameters of a collected test
TEST = re.compile(r"^(\S+\.py)::([^\[\s]+)(?:\[.*)?$")
Table = Mapping[tuple[str, str], int]


def collect(checkout: Path) -> Counter[tuple[str, str]]:
    """Count the cases of each test function that pytest collects."""
    interpreter = checkout / ".venv" / "bin" / "python"
    command = [str(interpreter) if interpreter.exists() else sys.executable, "-m", "pytest", "--collect-only", "-q"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
    environment["PYTHONPATH"] = str(checkout / "src")
    result = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=checkout, env=environment, capture_output=True, text=True
    )
    if result.returncode:
        raise SystemExit(f"pytest ended with status {result.returncode}:\n{result.stdout[-2_000:]}{result.stderr}")
    matches = [match for line in result.stdout.splitlines() if (match := TEST.match(line))]
    table = Counter((match[1], match[2]) for match in matches)
    total = re.search(r"^(\d+) tests collected", result.stdout, re.MULTILINE)
    if total is None or int(total[1]) != table.total():
        raise SystemExit(f"{table.total()} tests were read, but pytest says: {total and total[0]}.")
    return table


def format_table(table: Table) -> str:
    return "file\tfunction\tcases\n" + "".join(
        f"{file}\t{function}\t{cases}\n" for (file, function), cases in sorted(table.items())
    )


def parse_table(text: str) -> dict[tuple[str, str], int]:
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return {(row[0], row[1]): int(row[2]) for row in rows}


def parse_files(text: str) -> dict[str, str]:
    """The file map; further columns are ignored."""
    rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
    return {row[0]: row[1] for row in rows}


def compare(old: Table, new: Table, files: Mapping[str, str]) -> list[str]:
    """List the functions that the new table lacks.

    A function with fewer cases than before is listed, too.
    """
    lines: list[str] = []
    for (file, function), cases in sorted(old.items()):
        new_file = files.get(file, file)
        origin = "" if new_file == file else f" (before: {file})"
        if (new_file, function) not in new:
            lines.append(f"missing: {new_file}::{function}{origin}")
        elif new[new_file, function] < cases:
            lines.append(f"fewer cases: {new_file}::{function}{origin}: {new[new_file, function]} instead of {cases}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the names of tests, and compare two records.")
    commands = parser.add_subparsers(dest="command", required=True)
    collect_command = commands.add_parser("collect", help="print the table of a checkout")
    collect_command.add_argument("checkout", nargs="?", type=Path, default=Path())
    compare_command = commands.add_parser("compare", help="print what the new table lacks")
    compare_command.add_argument("old", type=Path)
    compare_command.add_argument("new", type=Path)
    compare_command.add_argument("--files", type=Path, help="a table of moved files: old file, new file")
    arguments = parser.parse_args()
    if arguments.command == "collect":
        print(format_table(collect(arguments.checkout.resolve())), end="")
        return
    files = parse_files(arguments.files.read_text()) if arguments.files else {}
    lines = compare(parse_table(arguments.old.read_text()), parse_table(arguments.new.read_text()), files)
    print("\n".join([*lines, f"{len(lines)} differences"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
