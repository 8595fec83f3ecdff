"""docs/first-customer.md: its commands lead from an empty server to an opened car."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from tests.docs.walkthrough import installed, walk
from tests.support.servers import RunningServer, migrated_database

pytestmark = pytest.mark.cluster


def test_from_an_empty_server_to_an_opened_car(database_server: str, settings: Settings, tmp_path: Path) -> None:
    """Runs the blocks with the mark first-customer, one after another."""
    with migrated_database(database_server) as dsn, RunningServer(settings, dsn) as running:
        same = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MASTER_KEY": os.environ["KEYRACK_MASTER_KEY"]}
        env = installed(tmp_path) | same | {"KEYRACK_URL": f"{running.url}/v3"}
        subprocess.run(["keyrack", "customer", "add", "Another"], env=env, check=True, capture_output=True)
        *_, assigned, opened = walk("docs/first-customer.md", env, tmp_path, mark="first-customer")
    assert '"userId":1' in assigned.text.replace(" ", "")
    (event,) = json.loads(opened.text[opened.text.index("[") :])
    assert (event["type"], event["carId"], event["userAgent"]) == ("CarOpened", 1, "First try")
