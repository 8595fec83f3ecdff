"""Each benchmark runs at tiny size, and prints the tables that the documents have. No time is asserted."""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Iterator

import pytest

import benchmarks
from benchmarks import catalog, sizes, tables
from tests.support.browser import CHROMIUM
from tests.support.servers import migrated_database

os.environ[sizes.VARIABLE] = sizes.TINY  # before a benchmark is imported: only benchmarks read it

# What other benchmarks use, and what measures nothing
SHARED = {
    "__main__", "catalog", "estimates", "floor", "goals", "history", "instructions", "load", "measurements", "peers",
    "processes", "sizes", "slices", "tables",
}  # fmt: skip
NO_PROCESSES = {"metrics", "bluetooth"}
ORIGIN = re.compile(
    r"^Taken at commit `[0-9a-f]{7,}`( with changes)? on \d+ [A-Z][a-z]+ \d{4}, on \d+ cores \(.+\) with \d+ GiB"
    r" and a load of [\d.]+, Python 3\.\d+\.\d+\.\n\n\|"
)
CASES = [pytest.param(name, marks=() if name in NO_PROCESSES else pytest.mark.cluster) for name in catalog.BENCHMARKS]


@pytest.fixture(scope="module")
def copied(database_server: str) -> Iterator[str]:
    """The address of a migrated database without rows, of which each benchmark gets a copy."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.mark.parametrize("name", CASES)
def test_runs_at_tiny_size(
    name: str, copied: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in {"screen", "driving"} and CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    monkeypatch.setenv("BENCHMARK_DATABASE_URL", copied)
    catalog.BENCHMARKS[name].run()
    printed = tables.sections(capfd.readouterr().out)
    assert set(printed) == {section for section in tables.places() if section.partition(" ")[0] == name}
    for section, text in printed.items():
        assert ORIGIN.match(text), (section, text)
        _, lines = text.split("\n\n", 1)
        rows = [line for line in lines.splitlines() if line.startswith("|")]
        assert len(rows) > 2, (section, text)
        assert len({row.count("|") for row in rows}) == 1, (section, text)


def test_every_module_is_in_the_catalog() -> None:
    modules = {module.name for module in pkgutil.iter_modules(benchmarks.__path__)}
    listed = {benchmark.module or benchmark.name for benchmark in catalog.BENCHMARKS.values()}
    assert modules - SHARED == listed
