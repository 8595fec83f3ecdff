"""Documents whose commands are walks on a demo: each runs unchanged and prints the documented output."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.docs.code_blocks import WALKS, blocks
from tests.docs.walkthrough import Printed, agrees, check, environment, installed, number_from_two, walk
from tests.support.people import http_client, web
from tests.support.servers import Process, free_port, reachable_directory

pytestmark = pytest.mark.cluster

# Documents with shell commands. odata.md and errors.md have raw HTTP requests
SHELL_WALKS = [document for document in WALKS if document not in ("docs/errors.md", "docs/odata.md")]
REQUEST = re.compile(r"^(GET) (\S+?)(?:\?(.*))?$")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The home directory of a reader who has started the demo."""
    with reachable_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def state(home: Path) -> Path:
    return home / ".local/share/keyrack/demo"


@pytest.fixture(scope="module")
def demo(state: Path) -> Iterator[dict[str, str]]:
    number_from_two(state)
    words = ("demo", "--port", "0", "--state", str(state), "--json")
    process = Process(*words, env={"KEYRACK_MASTER_KEY": "", "KEYRACK_DATABASE_URL": ""})
    try:
        assert process.popen.stdout is not None
        line = process.popen.stdout.readline()
        assert line, process.popen.stderr and process.popen.stderr.read()
        yield json.loads(line)
    finally:
        process.stop()


@pytest.fixture(scope="module")
def client(demo: dict[str, str]) -> Iterator[httpx.Client]:
    headers = {"vendor-API-Key": demo["KEYRACK_API_KEY"], "Customer-ID": demo["KEYRACK_CUSTOMER_ID"]}
    with http_client(base_url=demo["KEYRACK_URL"], headers=headers) as client:
        form = {"username": demo["KEYRACK_USERNAME"], "password": demo["KEYRACK_PASSWORD"], "grant_type": "password"}
        client.headers["Authorization"] = "Bearer " + client.post("/oauth2/token", data=form).json()["access_token"]
        yield client


def run(document: str, home: Path, directory: Path) -> list[Printed]:
    """Run the walk where `make` has installed Keyrack, and compare its output."""
    (directory / ".venv").symlink_to(sys.prefix)
    printed = walk(document, environment(home) | {"PORT": str(free_port())}, directory)
    for step in printed:
        check(step)
    return printed


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("document", SHELL_WALKS)
def test_walks_print_the_documented_output(document: str, home: Path, tmp_path: Path) -> None:
    run(document, home, tmp_path)


@pytest.mark.usefixtures("demo")
def test_the_walk_of_the_readme_can_be_repeated(home: Path, tmp_path: Path) -> None:
    """README.md: the `walk` leaves nothing that hinders a second run."""
    printed = "".join(step.text for step in run("README.md", home, tmp_path))
    assert '"name":' in printed
    assert printed.splitlines().count("204") == 4, "installed, taken out, car and user gone"
    assert '"carId"' in printed and '"userId"' in printed
    assert re.search(r"(?i)operation-id: [0-9a-f-]{36}", printed)
    assert '"userAgent":"README"' in printed.replace(": ", ":")


@pytest.mark.usefixtures("demo")
def test_postgresql_programs_can_connect(home: Path, state: Path, tmp_path: Path) -> None:
    """docs/database.md: the block with the mark inside, while Keyrack runs."""
    (printed,) = walk("docs/database.md", installed(home) | {"KEYRACK_STATE": str(state)}, tmp_path, mark="inside")
    assert re.search(r"count *\n-+\n +[1-9]", printed.text)
    assert (tmp_path / "keyrack.dump").read_bytes().startswith(b"PGDMP")


def queries() -> list[tuple[str, str]]:
    """The queries of docs/odata.md: paths with unencoded query strings."""
    asked = [REQUEST.match(line) for one in blocks("docs/odata.md") if one.language == "http" for line in one.lines]
    assert asked and all(asked)
    return [(match[2], match[3] or "") for match in asked if match]


@pytest.mark.parametrize(("path", "query"), queries(), ids=lambda value: value[:40])
def test_each_query_finds_rows(client: httpx.Client, path: str, query: str) -> None:
    answer = client.get(path + "?" + quote(query, safe="$=&()',/:;*@!~"))
    assert answer.status_code == 200, answer.text
    assert answer.json(), "every example finds something on the demo"


def test_the_error_on_the_page_of_codes_is_real(client: httpx.Client) -> None:
    (one,) = (one for one in blocks("docs/errors.md") if one.language == "http")
    sent, said, body = one.text.split("\n\n")
    (method, path), *headers = (line.split(maxsplit=1) for line in sent.splitlines())
    answer = client.request(
        method, path.removeprefix("/v3"), headers={name.rstrip(":"): value for name, value in headers}
    )
    first, *rest = said.splitlines()
    assert f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}" == first
    for line in rest:
        name, _, value = line.partition(": ")
        assert agrees(value, answer.headers[name]), line
    expected, found = json.loads(body), answer.json()
    # it begins with the server's address
    assert found.pop("type").endswith("/docs/" + expected.pop("type").rpartition("/")[2])
    assert agrees(expected, found)


# Variables of a shell with demo.env


def test_demo_env_has_the_values_that_the_demo_printed(demo: dict[str, str], state: Path) -> None:
    file = state / "demo.env"
    assert file.stat().st_mode & 0o777 == 0o600
    names = re.findall(r"(KEYRACK_[A-Z_]+)=", file.read_text())
    assert set(names) == set(demo) == {
        "KEYRACK_URL", "KEYRACK_API_KEY", "KEYRACK_USERNAME", "KEYRACK_PASSWORD", "KEYRACK_CUSTOMER_ID",
        "KEYRACK_SDK_KEY", "KEYRACK_DEVICE_KEY", "KEYRACK_STATE", "KEYRACK_CLIENT_ID", "KEYRACK_CLIENT_SECRET",
        "KEYRACK_DRIVER_EMAIL", "KEYRACK_DRIVER_PASSWORD",
    }  # fmt: skip
    assert demo["KEYRACK_URL"].endswith("/v3")


def test_every_picture_of_the_catalogue_is_served(client: httpx.Client) -> None:
    brands = client.get("/brands").json()
    assert len(brands) >= 30
    for brand in brands:
        keys = client.get(f"/brands/{brand}/keys").json()
        assert keys
        for key in keys:
            picture = web().get(key["keyForm"]["imageUrl"])
            assert picture.status_code == 200
            assert picture.headers["Content-Type"] == "image/svg+xml"
