"""The README's walk, run as written against a demo that was started as written."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import Process, reachable_directory

ROOT = Path(__file__).parents[1]


def walk() -> str:
    """The shell blocks of the section with the walk, as one script."""
    section = (ROOT / "README.md").read_text().split("<!-- walk:")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    with reachable_directory() as directory:
        yield directory / "state"


@pytest.fixture(scope="module")
def demo(state: Path) -> Iterator[dict[str, str]]:
    process = Process("demo", "--port", "0", "--state", str(state), "--json")
    try:
        assert process.popen.stdout is not None
        line = process.popen.stdout.readline()
        assert line, process.popen.stderr and process.popen.stderr.read()
        yield json.loads(line)
    finally:
        process.stop()


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_walk_of_the_readme(demo: dict[str, str], state: Path, time: str) -> None:
    """It leaves nothing in its own way."""
    script = re.sub(r"^\. ~/\S+.*$", f". {state}/demo.env", walk(), flags=re.MULTILINE)
    ran = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert '"name":' in ran.stdout
    assert ran.stdout.splitlines().count("204") == 4, "installed, taken out, car and user gone"
    assert '"carId"' in ran.stdout and '"userId"' in ran.stdout
    assert re.search(r"(?i)operation-id: [0-9a-f-]{36}", ran.stdout)
    assert '"userAgent":"README"' in ran.stdout.replace(": ", ":")


def test_the_demo_env_holds_what_the_demo_printed(demo: dict[str, str], state: Path) -> None:
    file = state / "demo.env"
    assert file.stat().st_mode & 0o777 == 0o600
    names = re.findall(r"(KEYRACK_[A-Z_]+)=", file.read_text())
    assert set(names) == set(demo) == {
        "KEYRACK_URL", "KEYRACK_API_KEY", "KEYRACK_USERNAME", "KEYRACK_PASSWORD", "KEYRACK_CUSTOMER_ID",
        "KEYRACK_SDK_KEY", "KEYRACK_DEVICE_KEY", "KEYRACK_STATE",
    }  # fmt: skip
    assert demo["KEYRACK_URL"].endswith("/v3")


def test_every_picture_of_the_catalogue_is_served(demo: dict[str, str]) -> None:
    headers = {"vendor-API-Key": demo["KEYRACK_API_KEY"]}
    with httpx.Client(base_url=demo["KEYRACK_URL"], headers=headers) as client:
        form = {"username": demo["KEYRACK_USERNAME"], "password": demo["KEYRACK_PASSWORD"], "grant_type": "password"}
        client.headers["Authorization"] = "Bearer " + client.post("/oauth2/token", data=form).json()["access_token"]
        brands = client.get("/brands").json()
        assert len(brands) >= 30
        for brand in brands:
            keys = client.get(f"/brands/{brand}/keys").json()
            assert keys
            for key in keys:
                picture = httpx.get(key["keyForm"]["imageUrl"])
                assert picture.status_code == 200
                assert picture.headers["Content-Type"] == "image/svg+xml"


def test_commands_find_the_demo_and_started_again_it_goes_on_where_it_was() -> None:
    """In a shell that has loaded `demo.env`, as in one that has not."""
    with reachable_directory() as directory:
        first = _start(KEYRACK_STATE=str(directory))
        env = json.loads(first[1])
        assert env["KEYRACK_STATE"] == str(directory / "demo"), "the real state is left alone"
        listed = _typed("customer", "list", "--json", KEYRACK_STATE=env["KEYRACK_STATE"])
        assert env["KEYRACK_CUSTOMER_ID"] in {str(row["id"]) for row in json.loads(listed.stdout)}
        lost = _typed("customer", "list", KEYRACK_STATE=str(directory))
        assert (lost.returncode, lost.stdout) == (1, "")
        assert f"The demo has one: load {directory}/demo/demo.env, or say --state {directory}/demo." in lost.stderr
        assert f"There is no database in {directory}. " in lost.stderr
        assert [path.name for path in directory.iterdir()] == ["demo"], "nor was one made"
        assert first[0].stop(signal.SIGINT) == 0
        second = _start(KEYRACK_STATE=env["KEYRACK_STATE"])
        again = json.loads(second[1])
        assert second[0].stop(signal.SIGTERM) == 0
        assert env | {"KEYRACK_URL": ""} == again | {"KEYRACK_URL": ""}


def _typed(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keyrack", *arguments]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=60, check=False)


def _start(**env: str) -> tuple[Process, str]:
    process = Process("demo", "--port", "0", "--json", env=env)
    assert process.popen.stdout is not None
    return process, process.popen.stdout.readline()


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert f"\n{target}:" in makefile
