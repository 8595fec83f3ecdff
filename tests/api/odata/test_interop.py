"""Queries of npm's query builders get the same responses as handwritten ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.api.odata.fleet import make_fleet
from tests.support.people import JOIN, Person
from tests.support.servers import Sql, eventually

HERE = Path(__file__).parent / "interop"
SENT_AS_IT_IS = "$&=()',/%:;@"

pytestmark = [
    pytest.mark.cluster,  # npm takes half a minute
    pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="Node is not installed"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The queries from the builders."""
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


def test_queries_of_the_builders_find_the_right_rows(alice: Person, sql: Sql, made: list[dict[str, str]]) -> None:
    fleet = make_fleet(sql)
    sql.execute(JOIN, alice.username, fleet.customer, "Viewer")
    headers = {"Customer-ID": str(fleet.customer)}
    eventually(lambda: alice.get("/cars", headers=headers).status_code == 200, "the new membership")
    assert {query["builder"] for query in made} == {
        "odata-query", "odata-filter-builder", "odata-builder", "@odata/client",
    }  # fmt: skip
    paths = {"Car": ["/cars"], "Event": [f"/cars/{car}/events" for car in fleet.cars]}
    for query in made:
        for path in paths[query["resource"]]:
            answers = [
                alice.get(f"{path}?{quote(text, safe=SENT_AS_IT_IS)}", headers=headers)
                for text in (query["query"], query["same"])
            ]
            assert [answer.status_code for answer in answers] == [200, 200], (query, answers[0].text)
            assert answers[0].json() == answers[1].json(), query
