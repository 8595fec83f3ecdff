"""The client packages of a server at `/packages/`."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from keyrack.http import package_index
from tests.support.people import fetch, http_client
from tests.support.servers import RunningServer

ROOT = Path(__file__).parents[2]
WHEEL = "keyrack_client-0.1.0-py3-none-any.whl"
PATIENCE = 300  # seconds for a build or a download


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packages") / "client_packages"
    command = [sys.executable, str(ROOT / "packages/dist.py"), "--clients", str(directory)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return directory


@pytest.fixture
def packages(server: RunningServer, built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the packages."""
    monkeypatch.setattr(package_index, "BUILT", built)
    yield f"{server.url}/packages"


def test_the_files_are_served(packages: str, built: Path) -> None:
    for file in built.iterdir():
        answer = fetch("GET", f"{packages}/{file.name}")
        assert (answer.status_code, answer.content) == (200, file.read_bytes())
        assert answer.headers["Content-Type"] in ("application/zip", "application/gzip")
        assert fetch("HEAD", f"{packages}/{file.name}").content == b""
    assert WHEEL in {file.name for file in built.iterdir()}


def test_the_client_package_is_small(built: Path) -> None:
    assert (built / WHEEL).stat().st_size < 60_000


def test_the_index_is_that_of_pep_503(packages: str, built: Path) -> None:
    projects = fetch("GET", f"{packages}/simple/")
    assert projects.headers["Content-Type"] == "text/html; charset=utf-8"
    assert '<a href="keyrack-client/">keyrack-client</a>' in projects.text
    page = fetch("GET", f"{packages}/simple/keyrack-client/").text
    links = [line.split('"')[1] for line in page.splitlines() if line.startswith("<a ")]
    assert {link.rpartition("/")[2].partition("#")[0] for link in links} >= {WHEEL, "keyrack_client-0.1.0.tar.gz"}
    for link in links:
        address, _, digest = urljoin(f"{packages}/simple/keyrack-client/", link).partition("#sha256=")
        assert hashlib.sha256(fetch("GET", address).content).hexdigest() == digest
    assert f">{WHEEL}<" in fetch("GET", f"{packages}/").text


def test_pip_downloads_the_package(packages: str, built: Path, tmp_path: Path) -> None:
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is None:
        pytest.skip("no pip is installed")
    command = [
        pip, "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--index-url",
        f"{packages}/simple", "--dest", str(tmp_path), "keyrack-client",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / WHEEL).read_bytes() == (built / WHEEL).read_bytes()


def test_an_address_without_a_slash_is_redirected(packages: str) -> None:
    for path in ("", "/simple", "/simple/keyrack-client"):
        answer = fetch("GET", packages + path)
        assert answer.status_code == 308
        assert urljoin(packages + path, answer.headers["Location"]) == f"{packages}{path}/"


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.whl", "/simple/other/", "/other/", "/../setup.py", "/%2e%2e/pyproject.toml", "/..%2f..%2fapp.py",
        "/simple/%2e%2e/", "/notes.txt", "/.hidden-1.whl", "/link-1.0.tar.gz", "/large-1.0.tar.gz", "//etc/passwd",
        "/simple/keyrack_client/",
    ],
)  # fmt: skip
def test_nothing_else_is_served(
    server: RunningServer, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    directory = tmp_path / "client_packages"
    shutil.copytree(built, directory)
    (directory / "notes.txt").write_text("a note")
    (directory / ".hidden-1.whl").write_text("hidden")
    (directory / "link-1.0.tar.gz").symlink_to(ROOT / "pyproject.toml")
    (directory / "large-1.0.tar.gz").write_bytes(bytes(package_index.MAX_BYTES + 1))
    (directory / "inner-1.0.tar.gz").mkdir()
    monkeypatch.setattr(package_index, "BUILT", directory)
    address = httpx.URL(server.url).copy_with(raw_path=f"/packages{path}".encode())
    with http_client() as client:
        answer = client.send(httpx.Request("GET", address))
    assert answer.status_code in (401, 404), answer.text  # 401: the address is not below /packages
    if answer.status_code == 404:
        assert answer.text == "There is nothing at this path."


def test_a_checkout_without_packages_says_so(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_index, "BUILT", tmp_path / "none")
    for path in ("/packages/", "/packages/simple/", "/v3/packages/x.whl"):
        answer = fetch("GET", server.url + path, headers={"Accept": "application/problem+json"})
        assert (answer.status_code, answer.json()["code"]) == (404, "path-not-found")
        assert answer.json()["detail"] == package_index.NOT_BUILT


def test_packages_that_are_built_later_are_offered_at_once(
    server: RunningServer, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make client-packages` beside a running demo needs no restart."""
    later = tmp_path / "later"
    monkeypatch.setattr(package_index, "BUILT", later)
    assert fetch("GET", f"{server.url}/packages/simple/").status_code == 404
    shutil.copytree(built, later)
    assert "keyrack-client/" in fetch("GET", f"{server.url}/packages/simple/").text
    assert fetch("GET", f"{server.url}/packages/{WHEEL}").status_code == 200


def test_only_reading_is_possible(packages: str) -> None:
    answer = fetch("PUT", f"{packages}/{WHEEL}", content=b"other")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")
