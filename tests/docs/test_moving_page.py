"""The commands of docs/moving.md, run as written, beside a server of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from keyrack.ops.transfer.record_types import KINDS
from tests.docs.code_blocks import ROOT, blocks
from tests.support.people import PASSWORD, Town
from tests.support.servers import SCRIPT_DEADLINE, RunningServer, Sql, migrated_database

pytestmark = pytest.mark.cluster

PAGE = "docs/moving.md"


def test_the_commands_do_what_is_said(database_server: str, settings: Settings, tmp_path: Path) -> None:
    with migrated_database(database_server) as dsn:
        sql = Sql(dsn)
        with RunningServer(settings, dsn) as server:
            town = Town(sql, server)
            town.person("another")
            person = town.person("moving")
            sql.execute("update customer set name = 'Harbour Car Sharing' where customer_id = $1", person.customer)
            car = person.car_with_box()
            person.assignment(car, user := person.user())
            person.event(car, user)
            env = {
                "KEYRACK_DATABASE_URL": dsn,
                "KEYRACK_URL": f"{server.url}/v3",
                "KEYRACK_API_KEY": person.api_key,
                "KEYRACK_USERNAME": person.username,
                "KEYRACK_PASSWORD": PASSWORD,
                "KEYRACK_CUSTOMER_ID": str(person.customer),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            }
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", "\n".join(one.text for one in blocks(PAGE))],
                env=os.environ | env, cwd=tmp_path, capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
            )  # fmt: skip
        sql.close()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"Customer {person.customer} exported to" in ran.stdout
    assert "imported, with all rows of the export." in ran.stdout
    assert "Both sides agree." in ran.stdout


def test_the_page_names_every_kind() -> None:
    text = (ROOT / PAGE).read_text()
    assert [kind.name for kind in KINDS if f"`{kind.name}`" not in text] == []
