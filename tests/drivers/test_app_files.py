"""Serving of the drivers' app: files, shell, redirect, and headers."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from keyrack.core.settings import Settings
from keyrack.drivers.app_files import load_app_files
from tests.support.people import fetch, http_client
from tests.support.servers import RunningServer

PHONE = Path(__file__).parents[2] / "reference/phone"


@pytest.fixture
def web(server: RunningServer) -> httpx.Client:
    return http_client(base_url=server.url)


@pytest.mark.parametrize("path", ["/drive/", "/drive/cars", "/drive/cars/12"])
def test_every_page_below_drive_is_the_shell(web: httpx.Client, path: str) -> None:
    answer = web.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Permissions-Policy"] == "bluetooth=(self)"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert policy.endswith("require-trusted-types-for 'script'; trusted-types drive")
    assert "/drive/main.js" in answer.text


def test_the_address_without_a_slash_redirects(web: httpx.Client) -> None:
    answer = web.get("/drive")
    assert (answer.status_code, answer.headers["Location"]) == (308, "/drive/")


@pytest.mark.parametrize("path", ["/v3/drive/", "//drive/", "/%64rive/", "/v3/drive/main.js", "/drivers/"])
def test_another_spelling_of_the_address_is_not_the_app(web: httpx.Client, server: RunningServer, path: str) -> None:
    assert web.get(server.url + path).status_code in (401, 404)


@pytest.mark.parametrize("path", ["/drive/absent.js", "/drive/phone/absent.js", "/drive/api", "/drive/api/absent"])
def test_an_unknown_file_or_endpoint_is_not_found(web: httpx.Client, path: str) -> None:
    assert web.get(path).status_code == 404


def test_a_write_to_a_page_is_not_allowed(web: httpx.Client) -> None:
    assert web.post("/drive/").status_code == 405


def test_a_file_is_served_until_it_changes(web: httpx.Client) -> None:
    answer = web.get("/drive/main.js")
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert web.get("/drive/main.js", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_modules_of_the_phone_are_served_unchanged(web: httpx.Client) -> None:
    modules = sorted(PHONE.glob("*.js"))
    assert modules
    for module in modules:
        assert web.get(f"/drive/phone/{module.name}").content == module.read_bytes()


def test_the_service_worker_names_all_files_and_their_digest(web: httpx.Client) -> None:
    worker = web.get("/drive/sw.js").text
    named = re.search(r"const FILES = '([^']+)'", worker)
    assert named is not None
    assert set(named[1].split()) == set(load_app_files()) - {"index.html", "sw.js"}
    assert re.search(r"const BUILD = '[0-9a-f]{16}'", worker)


def test_the_shell_names_only_files_that_exist(web: httpx.Client) -> None:
    shell, manifest = web.get("/drive/").text, web.get("/drive/manifest.webmanifest").text
    names = re.findall(r'"(/drive/[^"]+\.[a-z]+)"', shell + manifest)
    assert len(names) >= 7
    for name in names:
        assert web.get(name).status_code == 200, name


def test_another_host_redirects_to_the_address_of_the_app(settings: Settings, dsn: str) -> None:
    own = settings.model_copy(update={"drive_url": "https://drive.example.org"})
    with RunningServer(own, dsn, worker=False) as running:
        for path in ("/drive", "/drive/", "/drive/cars"):
            answer = fetch("GET", running.url + path)
            assert (answer.status_code, answer.headers["Location"]) == (308, "https://drive.example.org/drive/")
        assert fetch("GET", running.url + "/drive/", headers={"Host": "drive.example.org"}).status_code == 200
