"""requirements/install.py installs exactly the locked packages, with uv and with pip."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
METADATA = "Metadata-Version: 2.1\nName: keyrack-probe\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory with one package, which replaces an index."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    with ZipFile(directory / "keyrack_probe-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("keyrack_probe.py", "VALUE = 1\n")
        wheel.writestr("keyrack_probe-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("keyrack_probe-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("keyrack_probe-1.0.dist-info/RECORD", "")
    return directory


def locked(wheels: Path, digest: str = "") -> Path:
    """A lock of that package, with its hash or another one."""
    (wheel,) = wheels.glob("*.whl")
    lock = wheels.parent / "lock.txt"
    digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"keyrack-probe==1.0 \\\n    --hash=sha256:{digest}\n")
    return lock


def install(lock: Path, wheels: Path, *, uv: bool) -> subprocess.CompletedProcess[str]:
    """Run the program with that directory as pip's only source.

    uv is on the PATH or not.
    """
    tools = wheels.parent / "tools"
    tools.mkdir(exist_ok=True)
    if uv:
        program = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if program is None:
            pytest.skip("uv could not be installed from this index")
        (tools / "uv").symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environment |= {"PATH": f"{tools}:/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    environment |= {"PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        [sys.executable, str(ROOT / "requirements/install.py"), str(wheels.parent / "environment"), str(lock)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def value(wheels: Path) -> str:
    """The value that the environment's Python imports."""
    python = wheels.parent / "environment/bin/python"
    command = [python, "-c", "import keyrack_probe; print(keyrack_probe.VALUE)"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("uv", [True, False], ids=["uv", "pip"])
def test_the_locked_packages_are_installed_repeatedly(wheels: Path, *, uv: bool) -> None:
    for _ in range(2):
        ran = install(locked(wheels), wheels, uv=uv and not (wheels.parent / "tools/uv").exists())
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith("Installing 1 packages into ")
        assert ("with uv ..." in ran.stdout) == uv
        assert value(wheels) == "1\n"


@pytest.mark.parametrize("uv", [True, False], ids=["uv", "pip"])
def test_a_file_with_another_hash_is_rejected(wheels: Path, *, uv: bool) -> None:
    ran = install(locked(wheels, "0" * 64), wheels, uv=uv)
    assert ran.returncode == 1
    assert "lock.txt could not be installed" in ran.stderr
    assert "hash" in ran.stderr.lower()
    assert value(wheels) == ""


def test_a_missing_venv_module_is_explained(wheels: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "venv.py").write_text("raise SystemExit('ensurepip is not available')\n")
    ran = subprocess.run(
        [sys.executable, str(ROOT / "requirements/install.py"), str(tmp_path / "environment"), str(locked(wheels))],
        env=os.environ | {"PYTHONPATH": str(blocked)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "apt-get install python3-venv" in ran.stderr
