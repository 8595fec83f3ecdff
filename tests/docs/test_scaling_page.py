"""docs/scaling.md: its ten commands add a second cell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from keyrack.core.cell_ids import IDS_PER_CELL
from tests.docs.code_blocks import block, blocks
from tests.support.servers import SCRIPT_DEADLINE, Sql, fresh_database, migrated_database

pytestmark = pytest.mark.cluster

PAGE = "docs/scaling.md"


def test_the_commands_add_a_second_cell(database_server: str, tmp_path: Path) -> None:
    """The blocks `add-cell` and `use-cell` run unchanged."""
    with migrated_database(database_server) as main, fresh_database(database_server) as north:
        config = tmp_path / "keyrack.toml"
        config.write_text(f'database_url = "{main}"\n')
        config.chmod(0o600)
        keyrack = f'keyrack() {{ {sys.executable} -m keyrack "$@"; }}\n'
        env = {name: value for name, value in os.environ.items() if name != "KEYRACK_DATABASE_URL"}
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", keyrack + block(PAGE, "add-cell").text + block(PAGE, "use-cell").text],
            env=env | {"KEYRACK_CONFIG": str(config), "NORTH": north}, cwd=tmp_path,
            capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert tomllib.loads(config.read_text())["cells"] == [{"name": "north", "number": 1, "url": north}]
        assert json.loads((tmp_path / "settings.json").read_text())
        first = f"{IDS_PER_CELL + 1}"
        assert f"Customer {first} added. Its cell is north." in ran.stdout
        assert [line.split()[-1] for line in ran.stdout.splitlines() if line.startswith(f"{first} ")] == ["north"]
        sql = Sql(north)
        try:
            assert sql.value("select count(*) from api_key") == sql.value("select count(*) from manager") == 1
            assert sql.value("select count(*) from customer") == 1
        finally:
            sql.close()


def test_the_example_is_what_the_command_prints() -> None:
    (example,) = [one for one in blocks(PAGE) if one.language == "toml"]
    (cell,) = tomllib.loads(example.text)["cells"]
    assert list(cell) == ["name", "number", "url"] and (cell["name"], cell["number"]) == ("north", 1)
