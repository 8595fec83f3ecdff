"""The container: its files name existing settings, and the image runs read-only (`make test-image`)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyrack.core.settings import Settings, is_secret, variable
from tests.support.servers import DEADLINE, RunningServer, eventually, free_port

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "deploy/container"
CONTAINERFILE = (DIRECTORY / "Containerfile").read_text()
COMPOSE = DIRECTORY / "compose.yaml"
PODMAN = shlex.split(os.environ.get("KEYRACK_PODMAN", ""))
IMAGE = "localhost/keyrack:latest"
LIMITED = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none",
    *shlex.split(os.environ.get("KEYRACK_PODMAN_RUN", "")),
)  # fmt: skip

needs_image = pytest.mark.skipif(not PODMAN, reason="make test-image runs it: it needs the image of make image")


# The files


def test_deployment_files_use_existing_settings() -> None:
    known = {variable(name) for name in Settings.model_fields}
    known |= {variable(name, by_file=True) for name, field in Settings.model_fields.items() if is_secret(field)}
    known |= {"KEYRACK_BASE"}  # a variable of the build
    for path in (path for path in (ROOT / "deploy").rglob("*") if path.is_file()):
        assert set(re.findall(r"\bKEYRACK_[A-Z_]+\b", path.read_text())) <= known, path.name


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())


def test_compose_services_are_locked_down(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"api", "worker", "database"}
    for name in ("api", "worker"):
        service = services[name]
        assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["depends_on"] == {"database": {"condition": "service_healthy"}}
        assert int(service["stop_grace_period"].removesuffix("s")) > Settings().shutdown_timeout_seconds
        told = service["environment"]
        assert told["KEYRACK_DATABASE_URL_FILE"] == "/run/secrets/database-url"
        assert not any(variable(secret) in told for secret in ("database_url", "master_key"))
        Settings(**{key.removeprefix("KEYRACK_").lower(): value for key, value in told.items() if "_FILE" not in key})
    assert services["api"]["ports"] == ["127.0.0.1:8080:8080"]  # a TLS proxy is in front of it
    used = {secret for service in services.values() for secret in service["secrets"]}
    assert used == set(compose["secrets"])
    mounted = {volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert mounted == set(compose["volumes"])


def test_the_documented_commands_make_the_secrets_of_compose(compose: dict[str, Any], tmp_path: Path) -> None:
    lines = re.findall(r"^#   (.+)$", COMPOSE.read_text(), re.M)
    script = "\n".join(lines if os.geteuid() == 0 else [line for line in lines if "chown" not in line])
    subprocess.run(["sh", "-eu", "-c", script], cwd=tmp_path, check=True, timeout=DEADLINE)
    for secret in compose["secrets"].values():
        assert (tmp_path / secret["file"]).is_file()
    env = {
        "KEYRACK_DATABASE_URL": "", "KEYRACK_DATABASE_URL_FILE": str(tmp_path / "secrets/database-url"),
        "KEYRACK_MASTER_KEY": "", "KEYRACK_MASTER_KEY_FILE": str(tmp_path / "secrets/master-key"),
    }  # fmt: skip
    code = "from keyrack.core.settings import Settings; s = Settings();"
    code += "from keyrack.db.encryption import master_keys as master;"
    code += "print(s.database_url, len(master.read(s)))"
    read = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True, timeout=DEADLINE
    )
    password = (tmp_path / "secrets/database-password").read_text().strip()
    assert read.stdout == f"postgresql://keyrack:{password}@database:5432/keyrack 1\n", read.stderr


def test_the_image_has_an_unprivileged_user_and_a_health_check(server: RunningServer) -> None:
    assert re.findall(r"^USER (.+)$", CONTAINERFILE, re.M)[-1] == "10001:10001"
    told = re.search(r"HEALTHCHECK .*\\\n *CMD (\[.+\])\n", CONTAINERFILE)
    assert told is not None
    _, option, code = json.loads(told[1])
    for port, status in ((server.port, 0), (free_port(), 1)):
        there = code.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        assert there != code
        checked = subprocess.run([sys.executable, option, there], stderr=subprocess.DEVNULL, timeout=DEADLINE)
        assert checked.returncode == status


# The image


def tried(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PODMAN, *arguments], capture_output=True, text=True, timeout=4 * DEADLINE)


def podman(*arguments: str) -> str:
    ran = tried(*arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def container() -> Iterator[str]:
    name = f"keyrack-test-{os.getpid()}"
    yield name
    tried("rm", "--force", "--time=30", "--volumes", name)


def running(name: str, *command: str) -> None:
    podman("run", "--detach", f"--name={name}", f"--volume={name}:/var/lib/keyrack", *LIMITED, IMAGE, *command)


@needs_image
def test_the_image_serves_read_only_without_privileges(container: str) -> None:
    """PostgreSQL, API and worker run as an unknown user on a read-only file system."""
    running(container, "serve", "--state", "/var/lib/keyrack")
    eventually(lambda: tried("healthcheck", "run", container).returncode == 0, "its health")
    assert podman("exec", container, "id", "-u") == "10001"
    refused = podman("exec", container, "sh", "-c", "touch /opt/keyrack/x /etc/x /x 2>&1 || true")
    assert refused.count("Read-only file system") == 3
    effective = podman("exec", container, "sh", "-c", "grep CapEff /proc/1/status")
    assert int(effective.split()[1], 16) == 0
    podman("stop", "--time=30", container)
    assert podman("inspect", container, "--format", "{{.State.ExitCode}}") == "0"


@needs_image
def test_the_image_runs_the_demo(container: str) -> None:
    running(container, "demo", "--json")
    told = json.loads(eventually(lambda: podman("logs", container).partition("\n")[0], "the demo"))
    code = "import sys; from urllib.request import urlopen as o; print(o(sys.argv[1] + '/console/sign-in').status)"
    address = told["KEYRACK_URL"].removesuffix("/v3")
    assert podman("exec", container, "/opt/keyrack/bin/python3", "-c", code, address) == "200"


@needs_image
def test_the_image_has_the_documented_size() -> None:
    size = int(podman("image", "inspect", IMAGE, "--format", "{{.Size}}"))
    assert size < 420_000_000
