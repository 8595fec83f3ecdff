"""Clients generated from the OpenAPI document by docs/clients.md: strictly typed, and run against a server.

`make test-clients` installs the tools into the directory KEYRACK_CLIENTS.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.tools import TOOLS, put_node
from tests.support.people import PASSWORD, Person, Town, web
from tests.support.servers import RunningServer
from tests.telemetry.endpoints.test_ingest import device_key

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` installs the generators first")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs/clients.md").read_text()
PATIENCE = 900  # seconds for one command, on a busy machine


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of a section of docs/clients.md. An empty heading means the text before the first one."""
    sections = dict(zip(re.findall(r"^## (.*)$", PAGE, re.M), re.split(r"^## .*$", PAGE, flags=re.M)[1:], strict=True))
    text = sections[heading] if heading else PAGE.partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


class Workshop:
    """A directory for a generated client, with tools and a server's settings."""

    def __init__(self, directory: Path, server: RunningServer, person: Person) -> None:
        self.directory, self.person = directory, person
        tools = Path(TOOLS or "")
        directory.mkdir(exist_ok=True)
        shutil.copy(tools / "package.json", directory)
        shutil.copy(tools / "package-lock.json", directory)
        # Hard links, because npm replaces a link by a directory. They make a copy at once
        shutil.copytree(tools / "node_modules", directory / "node_modules", symlinks=True, copy_function=os.link)
        machine = person.put("/clients", {"name": "clients", "scopes": ["cars:read"]}).json()
        self.environment = put_node(tools) | {
            "KEYRACK_URL": f"{server.url}/v3",
            "KEYRACK_API_KEY": person.api_key,
            "KEYRACK_CLIENT_ID": machine["clientId"],
            "KEYRACK_CLIENT_SECRET": machine["clientSecret"],
            "KEYRACK_USERNAME": person.username,
            "KEYRACK_PASSWORD": PASSWORD,
            "KEYRACK_CUSTOMER_ID": str(person.customer),
            # npm requests lists of versions otherwise, although the packages are there
            "npm_config_prefer_offline": "true",
        }

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> str:
        """Run a command, and return its output. Raises `AssertionError` with all output if it fails."""
        ran = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment | (more or {}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def follow(self, heading: str) -> None:
        """Run the commands of a section unchanged."""
        for block in blocks("", "sh") + blocks(heading, "sh"):
            self.run("bash", "-euo", "pipefail", "-c", block)

    def add(self, *names: str) -> None:
        for name in names:
            shutil.copy(HERE / name, self.directory)

    def devices(self) -> dict[str, str]:
        """Make a box and a unit with services, and a device key."""
        serials = {"KEYRACK_BOX": "Box", "KEYRACK_IQ": "IQ"}
        for serial, kind in serials.items():
            product = self.person.product(kind, serial_number=serial, unique_id=f"unique {serial}")
            self.person.service(product)
        return {serial: serial for serial in serials} | {"KEYRACK_DEVICE_KEY": device_key(self.person)}


@pytest.fixture
def workshop(tmp_path: Path, server: RunningServer, town: Town) -> Workshop:
    person = town.person("clients")
    person.car("Golf")
    return Workshop(tmp_path / "work", server, person)


def test_the_linter_accepts_the_document(workshop: Workshop, server: RunningServer) -> None:
    public = {"KEYRACK_PUBLIC_URL": "https://keyrack.internal"}  # the linter warns about a server on localhost
    document = workshop.run(sys.executable, "-m", "keyrack", "openapi", "--json", more=public)
    (workshop.directory / "openapi.json").write_text(document)
    said = workshop.run(
        "npx", "redocly", "lint", "openapi.json", "--config", str(HERE / "redocly.yaml"), "--format=json"
    )
    totals = json.loads(said[said.index("{") :])["totals"]
    assert totals == {"errors": 0, "warnings": 0, "ignored": 0}
    assert set(json.loads(document)["paths"]) == set(web().get(server.url + "/openapi.json").json()["paths"])


def test_the_python_client_is_typed_and_works(workshop: Workshop) -> None:
    workshop.follow("Python")
    (program,) = blocks("Python", "python")
    (workshop.directory / "first.py").write_text(program)
    workshop.add("scenario.py", "pyrightconfig.json")
    python = Path(TOOLS or "") / "venv/bin/python"
    workshop.run(sys.executable, "-m", "pyright", "-p", ".", "--pythonpath", str(python))
    assert workshop.run(str(python), "first.py").split()[1:] == ["Golf", "None"]
    assert "CarOpened assignment.created" in workshop.run(str(python), "scenario.py", more=workshop.devices())


@pytest.mark.parametrize(
    ("heading", "scenario"),
    [
        ("TypeScript: types, and a small `fetch`", "openapi_fetch"),
        ("TypeScript: a function for each operation", "hey_api"),
    ],
    ids=["openapi-fetch", "hey-api"],
)
def test_the_typescript_clients_are_typed_and_work(workshop: Workshop, heading: str, scenario: str) -> None:
    workshop.follow(heading)
    (program,) = blocks(heading, "ts")
    (workshop.directory / "first.ts").write_text(program)
    workshop.add(f"{scenario}.ts", "receiver.ts", "tsconfig.json")
    workshop.run("npx", "tsc", "-p", ".")
    assert workshop.run("node", "made/first.js").split()[1:] == ["Golf", "null"]
    assert "CarOpened assignment.created" in workshop.run("node", f"made/{scenario}.js", more=workshop.devices())
