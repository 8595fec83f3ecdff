"""Static files: each has its type and a permanent address, and no other address."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import httpx
import pytest

from keyrack.console import static_files
from keyrack.console.static_files import load_static_files
from keyrack.core.settings import Settings
from tests.support.cases import for_all
from tests.support.people import web
from tests.support.servers import RunningServer

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}
OTHERS = {
    "cities.json", "countries-110m.json", "countries-50m.json", "htmx.js", "icons.svg", "maplibre-gl.css",
    "maplibre-gl.mjs", "maplibre-gl-worker.mjs", "pmtiles.mjs", "swagger-ui-bundle.js", "swagger-ui.css",
    "third-party.txt", "topojson-client.mjs", "towns.json", "uplot.css", "uplot.mjs", "villages.json",
}  # fmt: skip
NAMES = sorted(load_static_files().files)
FIRST_PAGE = 150_000  # bytes of everything that the first page fetches, packed
OF_ISLANDS = (
    "maplibre-gl",
    "pmtiles",
    "topojson",
    "uplot",
    "swagger-ui",
    "cities",
    "towns",
    "villages",
    "countries",
    "third-party",
)


def get(server: RunningServer, path: str, **headers: str) -> httpx.Response:
    told = {"Accept-Encoding": "identity"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return web().get(f"{server.url}/console/assets/{path}", headers=told)


def there(name: str) -> str:
    return f"{load_static_files().digest}/{name}"


def content(name: str) -> bytes:
    (path,) = (path for path in (static_files.OURS / name, static_files.OTHERS / name) if path.is_file())
    return path.read_bytes()


def test_every_file_of_ours_and_of_others_has_an_address() -> None:
    ours = {path.name for path in static_files.OURS.iterdir()}
    assert ours | OTHERS == set(NAMES)
    assert not ours & OTHERS


@for_all("name", NAMES)
def test_a_file_is_there_for_ever_with_its_type(name: str, server: RunningServer) -> None:
    answer = get(server, there(name))
    assert (answer.status_code, answer.content) == (200, content(name))
    assert answer.headers["content-type"] == TYPES[name.rpartition(".")[2]]
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "content-encoding" not in answer.headers and "set-cookie" not in answer.headers


@for_all("name", NAMES)
def test_who_takes_gzip_gets_the_same_packed(name: str, server: RunningServer, settings: Settings) -> None:
    plain, packed = get(server, there(name)), get(server, there(name), Accept_Encoding="br, gzip")
    assert packed.content == plain.content  # the client unpacks it
    worth_it = len(plain.content) >= settings.gzip_min_bytes
    assert packed.headers.get("content-encoding") == ("gzip" if worth_it else None)
    if worth_it:
        assert int(packed.headers["content-length"]) < len(plain.content)
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert packed.headers["etag"] == plain.headers["etag"][:-1] + '-gzip"'


def test_what_is_packed_beforehand_is_sent_as_it_is(server: RunningServer) -> None:
    with web().stream("GET", f"{server.url}/console/assets/{there('htmx.js')}") as answer:
        assert b"".join(answer.iter_raw()) == (static_files.OTHERS / "htmx.js.gz").read_bytes()


def test_nothing_is_packed_where_gzip_is_off(dsn: str, settings: Settings) -> None:
    with RunningServer(settings.model_copy(update={"gzip_min_bytes": 0}), dsn, worker=False) as server:
        answer = get(server, there("htmx.js"), Accept_Encoding="gzip")
    assert "content-encoding" not in answer.headers
    assert answer.content == content("htmx.js")


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_head_tells_what_get_would(coding: str, server: RunningServer) -> None:
    address = f"{server.url}/console/assets/{there('htmx.js')}"
    answers = [web().request(method, address, headers={"Accept-Encoding": coding}) for method in ("GET", "HEAD")]
    told = [
        {name: value for name, value in each.headers.items() if name not in ("date", "x-request-id")}
        for each in answers
    ]
    assert told[0] == told[1]
    assert answers[1].content == b"" and answers[1].status_code == 200


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_who_has_it_is_told_so(coding: str, server: RunningServer) -> None:
    first = get(server, there("htmx.js"), Accept_Encoding=coding)
    again = get(server, there("htmx.js"), Accept_Encoding=coding, If_None_Match=first.headers["etag"])
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert again.headers["cache-control"] == first.headers["cache-control"]
    other = get(server, there("htmx.js"), If_None_Match='"something-else"')
    assert (other.status_code, other.content) == (200, first.content)
    assert get(server, there("htmx.js"), If_None_Match="*").status_code == 304


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "htmx.js.gz",
        "built-from.txt",
        "..%2Ffiles.py",
        "..%2f..%2f__init__.py",
        "%2e%2e",
        "htmx.js%00",
    ],
)
def test_there_is_nothing_else(name: str, server: RunningServer) -> None:
    answer = get(server, there(name))
    assert answer.status_code == 404
    assert "There is no such file." in answer.text and "load it again" in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_a_file_of_another_version_is_not_this_one(server: RunningServer) -> None:
    answer = get(server, "0123456789abcdef/htmx.js")
    assert answer.status_code == 404
    assert "another version of Keyrack" in answer.text and "Load the page again." in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_files_are_only_read(server: RunningServer) -> None:
    for method in ("POST", "PUT", "DELETE"):
        answer = web().request(method, f"{server.url}/console/assets/{there('htmx.js')}")
        assert answer.status_code in (303, 405)  # a form leads to the sign-in page


def test_a_name_that_is_misspelt_is_no_address() -> None:
    assert static_files.address("/console", "htmx.js") == f"/console/assets/{load_static_files().digest}/htmx.js"
    with pytest.raises(LookupError):
        static_files.address("/console", "htmx.mjs")


def test_the_digest_is_that_of_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, directory in (("OURS", static_files.OURS), ("OTHERS", static_files.OTHERS)):
        shutil.copytree(directory, tmp_path / name)
        monkeypatch.setattr(static_files, name, tmp_path / name)
    fresh = load_static_files.__wrapped__
    assert fresh().digest == load_static_files().digest
    seen = {load_static_files().digest}
    for changed in ("OURS/keyrack.js", "OTHERS/uplot.css", "OURS/another.js"):
        with (tmp_path / changed).open("a") as file:
            file.write(" ")
        seen.add(fresh().digest)
    (tmp_path / "OURS/another.js").rename(tmp_path / "OURS/renamed.js")
    assert len(seen | {fresh().digest}) == 5


def test_an_installation_without_the_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_files, "OTHERS", tmp_path)
    with pytest.raises(static_files.MissingFiles, match="missing in this installation"):
        load_static_files.__wrapped__()


@for_all("name", [name for name in NAMES if name.endswith((".js", ".mjs"))])
def test_modules_find_their_siblings(name: str) -> None:
    script = content(name).decode()
    siblings = re.findall(r"""(?:\bfrom|\bimport)\s*\(?["']\./([^"'?]+)["']""", script)
    assert set(siblings) <= set(NAMES)
    if name == "maplibre-gl.mjs":
        assert "`maplibre-gl-worker.mjs`" in script and "maplibre-gl-shared" not in script


@for_all("name", [name for name in NAMES if name.endswith(".css")])
def test_styles_fetch_nothing_from_elsewhere(name: str) -> None:
    style = content(name).decode()
    for target in re.findall(r"url\(\s*[\"']?([^\"')]+)", style):
        assert target.startswith(("data:", "#")) or target.partition("#")[0] in NAMES, target
    assert not re.search(r"@import[^;]*//", style)


def test_no_file_asks_for_a_source_map_that_is_not_there() -> None:
    assert not [name for name in NAMES if b"sourceMappingURL=" in content(name)[-200:]]


def test_the_first_page_is_light() -> None:
    fetched = [name for name in NAMES if not name.startswith(OF_ISLANDS)]
    assert {"htmx.js", "icons.svg", "keyrack.js"} <= set(fetched)
    weight = {name: len(load_static_files().files[name].packed) for name in fetched}
    assert sum(weight.values()) <= FIRST_PAGE, weight


def test_packed_copies_are_the_same_each_time() -> None:
    for name in OTHERS:
        packed = (static_files.OTHERS / f"{name}.gz").read_bytes()
        assert gzip.decompress(packed) == content(name)
        assert packed[4:8] == bytes(4) and packed[3] == 0, "no time, no name"


def test_icons_are_those_of_the_list() -> None:
    root = Path(__file__).parents[2]
    lines = [line.split() for line in (root / "console-assets/icons.txt").read_text().splitlines()]
    listed = [line[0] for line in lines if line and line[0] != "#"]
    sprite = content("icons.svg").decode()
    assert re.findall(r'<symbol id="([^"]+)"', sprite) == listed
    assert len(set(listed)) == len(listed)
    assert not re.search(r"style|<script|href|\son", sprite)
    for template in static_files.OURS.parent.glob("templates/**/*.html"):
        named = set(re.findall(r"""\bicon\(["']([\w-]+)["']""", template.read_text()))
        assert named <= set(listed), f"{template.name} shows icons that console-assets/icons.txt does not name"


def test_cities_are_rows_with_a_class_of_size() -> None:
    cities, towns, villages = (json.loads(content(f"{name}.json")) for name in ("cities", "towns", "villages"))
    assert cities["source"] == towns["source"] == villages["source"] == "GeoNames (geonames.org), CC BY 4.0"
    assert cities["classes"] == towns["classes"] == villages["classes"] == sorted(cities["classes"], reverse=True)
    classes = [place[3] for place in cities["places"] + towns["places"] + villages["places"]]
    assert classes == sorted(classes) and set(classes) == set(range(len(cities["classes"])))
    assert cities["places"][-1][3] < towns["places"][0][3] and towns["places"][-1][3] < villages["places"][0][3]
    assert ["Berlin", 13.411, 52.524, 1] in cities["places"]
    assert len(cities["places"]) > 5_000 and len(towns["places"]) > 20_000
    assert len(villages["places"]) > 30_000


def test_every_licence_is_told() -> None:
    root = Path(__file__).parents[2]
    told = content("third-party.txt").decode()
    packages = json.loads((root / "console-assets/package-lock.json").read_text())["packages"]
    named = {path.removeprefix("node_modules/"): package["version"] for path, package in packages.items() if path}
    for name in ("@iconify/types", "@scarf/scarf", "@types/geojson", "commander"):  # nothing of them is shipped
        del named[name]
    for name, version in named.items():
        assert f"\n{name} {version}: " in told
    assert "GeoNames (geonames.org), licensed under CC BY 4.0" in told and "Natural Earth" in told
    for text in ("Zero-Clause BSD", "Apache License", "Lucide Icons and Contributors", "Cole Bemis", "Gary Court"):
        assert text in told
