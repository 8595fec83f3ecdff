"""docs/database.md and docs/install.md: a database and the systemd units, installed below a test directory.

The configuration file is that of docs/configure.md.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.db.embedded.test_postgres import Nobody
from tests.docs.code_blocks import ROOT, block
from tests.support.people import fetch
from tests.support.servers import DEADLINE, SCRIPT_DEADLINE, free_port, reachable_directory
from tests.support.single_postgresql import SinglePostgresql, single_postgresql
from tests.support.systemd import FIRST, HANDING_OVER

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("install") is None, reason="no coreutils"),
]

DATABASE, INSTALL, CONFIGURE = "docs/database.md", "docs/install.md", "docs/configure.md"
UNITS = ROOT / "deploy/systemd"
# Replaces the account `keyrack`, which systemd-sysusers makes. Without root, it is the test's own account
ACCOUNT = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
PACKAGES = os.pathsep.join([str(ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))])
SECRETS = ("master-key", "database-url", "checkpoint-key")


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A directory in place of /, which the account can reach."""
    with reachable_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def database() -> Iterator[SinglePostgresql]:
    with reachable_directory() as directory, single_postgresql(directory, ACCOUNT.pw_name) as server:
        yield server


def python() -> str:
    """A Python that the account can run."""
    if os.geteuid() != 0:
        return sys.executable
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            if Nobody(path).run("import keyrack.cli.commands.run; print('fine')") == "fine\n":
                return path
    pytest.skip("`nobody` cannot run any Python 3.11 here, or not read Keyrack's source")


def run(commands: str, **env: str) -> str:
    """Run commands, and return their output. Programs that need a whole system are replaced."""
    said = "".join(f'{name}() {{ echo "{name} $*"; }}\n' for name in ("systemctl", "systemd-sysusers"))
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", said + 'sudo() { shift 2; "$@"; }\n' + commands],
        cwd=ROOT, env=os.environ | env, capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def below(root: Path, commands: str) -> str:
    """Rewrite the commands for the directory `root` and an existing group."""
    for place in ("/etc/", "/usr/lib/sysusers.d/", "/opt/keyrack/bin/"):
        (root / place.strip("/")).mkdir(parents=True, exist_ok=True)
        commands = commands.replace(place, f"{root}{place}")
    return commands.replace("-g keyrack", f"-g {ACCOUNT.pw_gid}")


@pytest.fixture(scope="module")
def enabled(root: Path, database: SinglePostgresql) -> str:
    """The last output of the blocks `database`, `units` and `configured`."""
    run(block(DATABASE, "database").text, **database.superuser)
    units = below(root, block(INSTALL, "units").text).replace("/run/postgresql", str(database.sockets))
    (root / "etc/systemd/system").mkdir(parents=True)
    program = root / "opt/keyrack/bin/keyrack"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={PACKAGES} exec {python()} -m keyrack "$@"\n')
    program.chmod(0o755)
    *_, enabled = run(units).splitlines()
    (root / "keyrack.toml").write_text(block(CONFIGURE, "configuration").text.replace("/etc/", f"{root}/etc/"))
    run(below(root, block(INSTALL, "configured").text).replace(" keyrack.toml ", f" {root}/keyrack.toml "))
    return enabled


def test_the_units_are_installed(root: Path, enabled: str) -> None:
    units = {path.name for path in (root / "etc/systemd/system").iterdir()}
    assert units == {path.name for path in UNITS.glob("keyrack*.[st][eoa]*")}
    assert {word for word in enabled.split() if word.startswith("keyrack")} == units
    place = root / "etc/keyrack"
    assert (place.stat().st_mode & 0o777, place.stat().st_gid) == (0o750, ACCOUNT.pw_gid)
    for secret in SECRETS:
        assert ((place / secret).stat().st_mode & 0o777, (place / secret).stat().st_uid) == (0o600, os.geteuid())
    assert Settings(master_key=(place / "master-key").read_text().strip()).master_key


@dataclass
class Service:
    """A unit, started as by systemd: with its account, credentials, settings and sockets."""

    name: str
    root: Path
    metrics: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.bind("")
        self.notices.settimeout(DEADLINE)
        self.text = (self.root / f"etc/systemd/system/{self.name}.service").read_text()

    def values(self, key: str) -> list[str]:
        return re.findall(rf"^{key}=(.*)$", self.text, re.MULTILINE)

    @property
    def metrics_address(self) -> str:
        """The address in the unit."""
        (address,) = re.findall(r"^Environment=KEYRACK_METRICS=(\S+)$", self.text, re.MULTILINE)
        return address

    def environment(self) -> dict[str, str]:
        """The variables of the unit, and of its file, which has precedence."""
        credentials, cache = (self.root / place / self.name for place in ("credentials", "cache"))
        for directory in (credentials, cache / self.values("CacheDirectory")[0]):
            directory.mkdir(parents=True, mode=0o700)
            os.chown(directory, ACCOUNT.pw_uid, ACCOUNT.pw_gid)
        for credential in self.values("LoadCredential"):
            name, _, source = credential.partition(":")
            copy = Path(shutil.copyfile(f"{self.root}{source}", credentials / name))
            copy.chmod(0o400)
            os.chown(copy, ACCOUNT.pw_uid, ACCOUNT.pw_gid)
        lines = [word for line in self.values("Environment") for word in shlex.split(line)]
        for file in self.values("EnvironmentFile"):
            lines += Path(f"{self.root}{file.removeprefix('-')}").read_text().splitlines()
        text = "\n".join(lines).replace("%d", str(credentials)).replace("%C", str(cache))
        text = text.replace(self.metrics_address, f"127.0.0.1:{self.metrics}")  # the unit's port may be in use here
        return dict(line.split("=", 1) for line in text.splitlines())

    def start(self) -> subprocess.Popen[str]:
        """Start the service, and return once it is ready."""

        def hand_over() -> None:
            os.dup2(self.listener.fileno(), FIRST)

        notices = "@" + self.notices.getsockname()[1:].decode()
        system = {"PATH": os.defpath, "HOME": "/", "LISTEN_FDS": "1", "NOTIFY_SOCKET": notices}
        if self.name != "keyrack-api":
            del system["LISTEN_FDS"]
        (command,) = self.values("ExecStart")
        process = subprocess.Popen(
            ["sh", "-c", HANDING_OVER, "sh", *shlex.split(command.replace("/opt/", f"{self.root}/opt/"))],
            env=system | self.environment(), cwd="/", text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True, preexec_fn=hand_over, pass_fds=[FIRST],
            **({"user": ACCOUNT.pw_uid, "group": ACCOUNT.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}),
        )  # fmt: skip
        self.notices.settimeout(0.5)
        while True:
            try:
                if b"READY=1" in self.notices.recv(4096).split(b"\n"):
                    return process
            except TimeoutError:
                assert process.poll() is None, process.stderr and process.stderr.read()

    def stop(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=DEADLINE)
        self.listener.close()
        self.notices.close()


@pytest.mark.usefixtures("enabled")
def test_both_services_run_as_the_account(root: Path) -> None:
    """They share the page's configuration file and the database of its commands."""
    services = [Service(name, root) for name in ("keyrack-api", "keyrack-worker")]
    with ExitStack() as stack:
        for service in services:
            process = service.start()
            stack.callback(service.stop, process)
        api = f"http://127.0.0.1:{services[0].listener.getsockname()[1]}"
        assert fetch("GET", f"{api}/health/ready").status_code == 200
        for service in services:
            assert "keyrack_process_up" in metrics(service.metrics).text


def metrics(port: int) -> httpx.Response:
    return fetch("GET", f"http://127.0.0.1:{port}/metrics")


def test_each_unit_has_its_own_address_for_metrics() -> None:
    """Both are targets in deploy/prometheus/prometheus.yml."""
    texts = [path.read_text() for path in sorted(UNITS.glob("*.service"))]
    addresses = [re.findall(r"^Environment=KEYRACK_METRICS=(\S+)$", text, re.MULTILINE) for text in texts]
    assert addresses == [["127.0.0.1:9464"], ["127.0.0.1:9465"]]
    scraped = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    assert all(f'"{address}"' in scraped for [address] in addresses)
    assert "metrics" not in block(CONFIGURE, "configuration").text, "several commands read that file"
