"""The commands of docs/batch.md, run as written, with the README's `api`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from tests.people import PASSWORD, Person
from tests.servers import RunningServer

ROOT = Path(__file__).parents[2]


def blocks(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def test_the_commands_do_what_is_said(carol: Person, server: RunningServer) -> None:
    api = next(block for block in blocks((ROOT / "README.md").read_text()) if "api()" in block)
    script = re.sub(r"^\. ~/\S+.*$", "", api, flags=re.MULTILINE)
    script += "\n".join(blocks((ROOT / "docs/batch.md").read_text()))
    script = script.replace("sam.doe@", f"sam.{carol.customer}.{os.getpid()}@")  # other tests' people are here, too
    env = {
        "KEYRACK_URL": f"{server.url}/v3",
        "KEYRACK_API_KEY": carol.api_key,
        "KEYRACK_USERNAME": carol.username,
        "KEYRACK_PASSWORD": PASSWORD,
        "KEYRACK_CUSTOMER_ID": str(carol.customer),
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=os.environ | env, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    made, atomic, asked, dry, refused = [json.loads(line) for line in ran.stdout.splitlines() if line]
    assert [result["status"] for result in made["results"]] == [201, 201, 400]
    assert made["results"][2]["detail"] == "Couldn't create car. No valid name provided."
    assert [result["status"] for result in atomic["results"]] == [424, 404]
    assert all(result["operationId"] in result["operationLocation"] for result in asked["results"])
    (result,) = dry["results"]
    assert (dry["dryRun"], result["wouldFail"]) == (True, "There is no key box installed in the car.")
    assert [result["status"] for result in refused["results"]] == [204, 409]
    (conflict,) = refused["results"][1]["conflicts"]
    assert (conflict["item"], conflict["start"], conflict["end"]) == (0, "2027-01-01T08:00:00Z", None)
