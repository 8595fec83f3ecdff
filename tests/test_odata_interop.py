"""What npm's query builders make is understood: each of their queries finds what the same question by hand finds."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from keyrack.resources import CAR, EVENT
from tests.odata_fleet import Fleet, make_fleet

HERE = Path(__file__).parent / "odata_interop"
RESOURCES = {"Car": CAR, "Event": EVENT}

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="Node is not installed"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The queries that the builders make."""
    place = tmp_path_factory.mktemp("interop")
    for file in HERE.iterdir():
        shutil.copy(file, place)
    installed = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=place, capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip("npm cannot install the builders here: " + installed.stderr.strip().splitlines()[-1])
    printed = subprocess.run(["node", "build.cjs"], cwd=place, capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


def test_the_queries_of_the_builders_find_the_right_rows(sql: Any, made: list[dict[str, str]]) -> None:
    fleet: Fleet = make_fleet(sql)
    assert {query["builder"] for query in made} == {
        "odata-query", "odata-filter-builder", "odata-builder", "@odata/client",
    }  # fmt: skip
    for query in made:
        resource = RESOURCES[query["resource"]]
        raw = quote(query["query"], safe="$&=()',/%:;@ ").encode()
        assert fleet.ask(resource, raw) == fleet.ask(resource, query["same"]), query
