"""The commands of docs/telemetry.md on where cars are and were, run as written, with the README's `api`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.documents.test_batch_walk import ROOT, blocks
from tests.endpoints.test_ingest import Unit, unit_of
from tests.people import PASSWORD, Person
from tests.servers import RunningServer
from tests.telemetry.test_nearest import stamp


@pytest.fixture
def unit(carol: Person) -> Unit:
    return unit_of(carol)


def answers(unit: Unit, server: RunningServer) -> list[Any]:
    """What the commands of the section print: JSON, or the lines of a head."""
    api = next(block for block in blocks((ROOT / "README.md").read_text()) if "api()" in block)
    script = re.sub(r"^\. ~/\S+.*$", f"car={unit.car}", api, flags=re.MULTILINE)
    section = (ROOT / "docs/telemetry.md").read_text().split("## Where cars are and were")[1].split("\n## ")[0]
    script += "\n".join(blocks(section))
    person = unit.person
    env = {
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": person.api_key,
        "KEYRACK_USERNAME": person.username,
        "KEYRACK_PASSWORD": PASSWORD,
        "KEYRACK_CUSTOMER_ID": str(person.customer),
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=os.environ | env, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    head = re.search(r"^HTTP.*?\n\n", ran.stdout, re.DOTALL | re.MULTILINE)
    assert head
    rest, found, decoder = ran.stdout.replace(head[0], "").lstrip(), list[Any](), json.JSONDecoder()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].lstrip()
    return [*found, head[0].lower()]


def test_the_commands_do_what_is_said(unit: Unit, server: RunningServer) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    for n, at in enumerate((now - timedelta(days=10), now - timedelta(days=1), now)):
        place = {"currentLatitude": 52.5 + n, "currentLongitude": 13.4, "odometer": 100 + n, "fuelLevelPercent": 50 - n}
        unit.deliver(unit.sample(0, **place) | {"carDataReadTime": stamp(at)})
    first, moved, track, samples, levels, head = answers(unit, server)
    assert 0 < len(first) <= 2 and "hasUnit" in first[0]
    assert unit.car in {row["carId"] for row in moved}
    assert "x-total-count: " in head
    assert (track["carId"], track["thinned"], len(track["points"])) == (unit.car, False, 1)
    (hour,) = samples["series"]["odometer"]
    assert (samples["seconds"], hour["count"], hour["last"]) == (3600, 1, track["points"][0]["odometer"])
    assert list(levels["series"]) == ["fuelLevelPercent", "batteryVoltage"]
    assert [hour["last"] for hour in levels["series"]["fuelLevelPercent"]] == [49]
