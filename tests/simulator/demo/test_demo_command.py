"""`keyrack demo`: the place of its database, access for other commands, and restarts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from keyrack.simulator.demo import read_env
from tests.support.people import fetch, http_client
from tests.support.servers import Process, eventually, reachable_directory

pytestmark = pytest.mark.cluster


def test_commands_find_the_demo_and_a_restart_keeps_its_data() -> None:
    """This holds with and without `demo.env` in the shell."""
    with reachable_directory() as directory:
        first = _start(KEYRACK_STATE=str(directory))
        env = json.loads(first[1])
        assert env["KEYRACK_STATE"] == str(directory / "demo"), "the real state is left alone"
        listed = _typed("customer", "list", "--json", KEYRACK_STATE=env["KEYRACK_STATE"])
        assert env["KEYRACK_CUSTOMER_ID"] in {str(row["id"]) for row in json.loads(listed.stdout)}
        lost = _typed("customer", "list", KEYRACK_STATE=str(directory))
        assert (lost.returncode, lost.stdout) == (1, "")
        assert (
            f"To use the demo's database, load {directory}/demo/demo.env or add --state {directory}/demo."
            in lost.stderr
        )
        assert f"There is no database in {directory}. " in lost.stderr
        assert [path.name for path in directory.iterdir()] == ["demo"], "nor was one made"
        assert first[0].stop(signal.SIGINT) == 0
        second = _start(KEYRACK_STATE=env["KEYRACK_STATE"])
        again = json.loads(second[1])
        assert second[0].stop(signal.SIGTERM) == 0
        assert env | {"KEYRACK_URL": ""} == again | {"KEYRACK_URL": ""}


def test_the_demo_responds_at_localhost_and_both_loopback_addresses() -> None:
    with reachable_directory() as directory:
        process, said = _start(KEYRACK_STATE=str(directory))
        url = urlsplit(json.loads(said)["KEYRACK_URL"])
        assert url.hostname == "localhost", "passkeys are bound to a name"
        for host in ("localhost", "127.0.0.1", *["[::1]"] * _has_ipv6()):
            assert fetch("GET", f"http://{host}:{url.port}/health").status_code == 200
        taken = _typed("demo", "--port", str(url.port), "--state", str(directory / "other"))
        assert (taken.returncode, taken.stdout) == (1, "")
        assert f"Port {url.port} at 127.0.0.1 is in use." in taken.stderr
        assert process.stop(signal.SIGINT) == 0


def test_cars_open_by_keys_over_the_radio() -> None:
    """The demo prints the address of their openings. The first ones come soon."""
    with reachable_directory() as directory:
        process = Process("demo", "--port", "0", env={"KEYRACK_STATE": str(directory)})
        assert process.popen.stdout is not None
        lines = [line.strip() for line in iter(process.popen.stdout.readline, "Stop with Ctrl-C.\n")]
        env = read_env(directory / "demo" / "demo.env")
        origin = env["KEYRACK_URL"].removesuffix("/v3")
        assert f"{origin}/console/{env['KEYRACK_CUSTOMER_ID']}/events?q=Keyrack+key" in lines
        headers = {"vendor-API-Key": env["KEYRACK_API_KEY"]}
        form = {"username": env["KEYRACK_USERNAME"], "password": env["KEYRACK_PASSWORD"], "grant_type": "password"}
        with http_client(base_url=env["KEYRACK_URL"], headers=headers) as client:
            token = client.post("/oauth2/token", data=form).json()["access_token"]
            client.headers.update({"Authorization": f"Bearer {token}", "Customer-ID": env["KEYRACK_CUSTOMER_ID"]})
            query = {"$filter": "startswith(userAgent, 'Keyrack key, box:')"}
            eventually(lambda: client.get("/events", params=query).json() != [], "an opening by a key")
        assert process.stop(signal.SIGINT) == 0


def test_another_program_at_the_port_of_ipv6_is_reported() -> None:
    """Otherwise `localhost` would reach that program."""
    if not _has_ipv6():
        pytest.skip("no IPv6 here")
    with reachable_directory() as directory, socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        taken = _typed("demo", "--port", str(port), "--state", str(directory))
        assert (taken.returncode, taken.stdout) == (1, "")
        assert f"Port {port} at ::1 is in use." in taken.stderr
        assert list(directory.iterdir()) == []


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def _typed(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keyrack", *arguments]
    return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=60, check=False)


def _start(**env: str) -> tuple[Process, str]:
    process = Process("demo", "--port", "0", "--json", env=env)
    assert process.popen.stdout is not None
    return process, process.popen.stdout.readline()
