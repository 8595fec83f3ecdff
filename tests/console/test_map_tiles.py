"""Streets on maps: ranges of the operator's file, tiles of another server, and missing tiles."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Request, Route, expect

from keyrack.console.map_tiles import BadTiles, check
from keyrack.core.settings import Settings
from keyrack.http.page_router import POLICY
from tests.console import axe
from tests.console.axe import faults
from tests.console.conftest import Desk
from tests.console.pmtiles import EXTENT, LINE, POLYGON, layer, pmtiles
from tests.console.test_contrast import TOKENS
from tests.console.test_overview import HAMBURG, car_at
from tests.support.people import Person, Town, fetch
from tests.support.servers import RunningServer, eventually

CSP = "content-security-policy"
TODAY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'self'"
)
WHOLE = [(0, 0), (EXTENT, 0), (EXTENT, EXTENT), (0, EXTENT)]
# A park everywhere, and streets across it, so close that they are visible at every place
STREETS = [[(0, y), (EXTENT, y)] for y in range(0, EXTENT, 4)]
TILE = layer("landuse", [(POLYGON, WHOLE, {"kind": "park"})]) + layer(
    "roads", [(LINE, street, {"kind": "major_road", "name": "Lange Straße"}) for street in STREETS]
)
ZOOM = 6
OF_HAMBURG = (ZOOM, 33, 20)
REGION = (5.6, 52.5, 11.25, 55.8)  # of that tile
BORDERS = "Borders: Natural Earth."
PARTLY = "Parts of this map have no streets: their tiles are missing."
GONE = "The streets could not be loaded."
BREMEN = {"currentLatitude": 53.08, "currentLongitude": 8.8}
ELSEWHERE = "https://tiles.example"
ARCHIVE = pmtiles({OF_HAMBURG: TILE}, REGION)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiles") / "region.pmtiles"
    path.write_bytes(ARCHIVE)
    return path


@pytest.fixture(scope="module")
def streets(dsn: str, settings: Settings, file: Path) -> Iterator[RunningServer]:
    """A server with a file of tiles."""
    told = {"map_tiles": str(file), "map_range_bytes": 20_000}
    with RunningServer(settings.model_copy(update=told), dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def driver(town: Town) -> Iterator[Person]:
    """A person with one car, in Hamburg."""
    person = town.person("streets")
    car_at(person, "Alster", HAMBURG)
    yield person
    person.client.close()


@pytest.fixture
def browser(driver: Person, streets: RunningServer) -> Iterator[httpx.Client]:
    """The driver's browser, at the server with tiles."""
    with driver.browser() as client:
        client.base_url = httpx.URL(f"{streets.url}/console")
        yield client


def at(browser: httpx.Client, driver: Person) -> str:
    """The address of the file, below the console."""
    told = re.search(
        r'data-tiles="/console(/map/[0-9a-f]{32}/tiles\.pmtiles)"', browser.get(f"/{driver.customer}").text
    )
    assert told is not None
    return told[1]


def piece(browser: httpx.Client, driver: Person, **headers: str) -> httpx.Response:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return browser.get(at(browser, driver), headers={"Accept-Encoding": "gzip"} | told)


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [
        ("bytes=0-16383", 0, len(ARCHIVE)),  # the first range of every reader; this file is shorter
        ("bytes=0-0", 0, 1),
        ("bytes=7-7", 7, 8),
        ("BYTES=100-", 100, len(ARCHIVE)),
        ("bytes=-20", len(ARCHIVE) - 20, len(ARCHIVE)),
        (f"bytes=-{len(ARCHIVE) + 5}", 0, len(ARCHIVE)),
    ],
)
def test_a_range_of_the_file_is_sent(browser: httpx.Client, driver: Person, asked: str, begin: int, end: int) -> None:
    answer = piece(browser, driver, Range=asked)
    assert (answer.status_code, answer.content) == (206, ARCHIVE[begin:end])
    assert answer.headers["content-range"] == f"bytes {begin}-{end - 1}/{len(ARCHIVE)}"
    assert answer.headers["content-type"] == "application/vnd.pmtiles" and "content-encoding" not in answer.headers
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["accept-ranges"] == "bytes" and answer.headers[CSP] == TODAY


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("", 400, "This file is only available in ranges."),
        ("lines=1-2", 400, "This file is only available in ranges."),
        (f"bytes={len(ARCHIVE)}-", 416, f"The requested range is outside of the file, which has {len(ARCHIVE)} bytes."),
        ("bytes=5-4", 416, "The requested range is outside of the file"),
        ("bytes=-0", 416, "The requested range is outside of the file"),
        ("bytes=-", 416, "The requested range is outside of the file"),
        ("bytes=0-1,5-6", 416, "The requested range is outside of the file"),
        ("bytes=" + "9" * 40 + "-", 416, "The requested range is outside of the file"),
        ("bytes=0x1-2", 416, "The requested range is outside of the file"),
    ],
)
def test_what_is_no_range_of_the_file_is_refused(
    browser: httpx.Client, driver: Person, asked: str, status: int, said: str
) -> None:
    answer = piece(browser, driver, Range=asked)
    assert answer.status_code == status and said in answer.text
    assert answer.headers.get("content-range") == (f"bytes */{len(ARCHIVE)}" if status == 416 else None)
    assert answer.headers["cache-control"] == "no-store"


def test_one_request_gets_no_more_than_the_bound(
    dsn: str, settings: Settings, driver: Person, browser: httpx.Client, file: Path
) -> None:
    most = len(ARCHIVE) - 1
    told = {"map_tiles": str(file), "map_range_bytes": most}
    with RunningServer(settings.model_copy(update=told), dsn, worker=False) as small:
        browser.base_url = httpx.URL(f"{small.url}/console")
        assert piece(browser, driver, Range=f"bytes=0-{most - 1}").status_code == 206
        answer = piece(browser, driver, Range=f"bytes=0-{most}")
    assert answer.status_code == 416 and f"A request can read at most {most} bytes." in answer.text
    assert "KEYRACK_MAP_RANGE_BYTES" in answer.text


def test_who_has_a_piece_is_told_so_and_conditions_hold(browser: httpx.Client, driver: Person) -> None:
    tag = piece(browser, driver, Range="bytes=0-9").headers["etag"]
    had = piece(browser, driver, Range="bytes=0-9", If_None_Match=tag)
    assert (had.status_code, had.content, had.headers["etag"]) == (304, b"", tag)
    assert piece(browser, driver, Range="bytes=0-9", If_Range=tag).status_code == 206
    assert piece(browser, driver, Range="bytes=0-9", If_Range='"other"').status_code == 400  # as without a range


def test_the_file_is_for_those_who_are_signed_in(browser: httpx.Client, driver: Person, streets: RunningServer) -> None:
    answer = fetch("GET", f"{streets.url}/console{at(browser, driver)}", headers={"Range": "bytes=0-9"})
    assert answer.status_code == 303 and answer.headers["location"].startswith("/console/sign-in")
    assert b"PMTiles" not in answer.content


def test_another_file_has_another_address(
    browser: httpx.Client, driver: Person, streets: RunningServer, file: Path
) -> None:
    """The next page uses a replaced file. An unusable one is reported only by the map."""
    before = at(browser, driver)
    try:
        other = file.with_suffix(".new")
        other.write_bytes(pmtiles({OF_HAMBURG: layer("water", [(POLYGON, WHOLE, {})])}, REGION))
        other.replace(file)
        assert at(browser, driver) != before
        answer = browser.get(before, headers={"Range": "bytes=0-9"})
        assert answer.status_code == 404 and "Load the page with the map again." in answer.text
        file.unlink()
        assert 'data-tiles="/console/map/none/tiles.pmtiles"' in browser.get(f"/{driver.customer}").text
        assert browser.get(before, headers={"Range": "bytes=0-9"}).status_code == 404
    finally:
        file.write_bytes(ARCHIVE)
    assert at(browser, driver) == before


def test_without_the_setting_nothing_is_different(driver: Person, server: RunningServer) -> None:
    assert POLICY["Content-Security-Policy"] == TODAY
    with driver.browser() as client:
        page = client.get(f"/{driver.customer}")
        assert page.headers[CSP] == TODAY and "data-tiles" not in page.text and "OpenStreetMap" not in page.text
        assert client.get("/map/none/tiles.pmtiles", headers={"Range": "bytes=0-9"}).status_code == 404


@pytest.mark.parametrize(
    ("tiles", "origin"),
    [
        ("https://tiles.example/region.pmtiles", "https://tiles.example"),
        ("https://Tiles.Example:8443/v3/{z}/{x}/{y}.mvt?key=a,b;c", "https://tiles.example:8443"),
        ("http://127.0.0.1:9000/{z}/{x}/{y}.png", "http://127.0.0.1:9000"),
    ],
)
def test_only_pages_with_a_map_may_ask_the_named_server(
    dsn: str, settings: Settings, driver: Person, browser: httpx.Client, tiles: str, origin: str
) -> None:
    told = {"map_tiles": tiles, "map_attribution": "Tiles by <b>us</b>"}
    car = driver.get("/cars").json()[0]["id"]
    with RunningServer(settings.model_copy(update=told), dsn, worker=False) as remote:
        browser.base_url = httpx.URL(f"{remote.url}/console")
        for path in (f"/{driver.customer}", f"/{driver.customer}/cars/{car}", f"/{driver.customer}/cars/{car}/track"):
            assert browser.get(path).headers[CSP] == f"{TODAY}; connect-src 'self' {origin}"
        for path in (f"/{driver.customer}/cars", f"/{driver.customer}/settings", "/sign-in"):
            assert browser.get(path).headers[CSP] == TODAY
        assert "Tiles by &lt;b&gt;us&lt;/b&gt;" in browser.get(f"/{driver.customer}").text


BAD = {
    "absent": (None, "cannot be read: No such file or directory"),
    "empty": (b"", "is no PMTiles file of version 3"),
    "other": (b"SQLite format 3\0" + bytes(200), "is no PMTiles file of version 3"),
    "short": (ARCHIVE[:100], "is no PMTiles file of version 3"),
    "old": (pmtiles({OF_HAMBURG: TILE}, REGION, version=2), "is a PMTiles file of version 2: version 3 is needed"),
    "pictures": (pmtiles({OF_HAMBURG: TILE}, REGION, type=2), "holds PNG pictures: vector tiles (MVT) are needed"),
    "unknown": (pmtiles({OF_HAMBURG: TILE}, REGION, type=0), "holds tiles of an unknown type"),
    "brotli": (pmtiles({OF_HAMBURG: TILE}, REGION, packing=3), "is packed in a way that browsers do not unpack"),
    "torn": (ARCHIVE[:-1], f"is cut off: it should have {len(ARCHIVE)} bytes and has {len(ARCHIVE) - 1}"),
}


def refused(value: str, directory: Path) -> str:
    """The error of `keyrack serve`, which does not start."""
    told = {"KEYRACK_MAP_TILES": value, "KEYRACK_STATE": str(directory / "state")}
    ran = subprocess.run(
        [sys.executable, "-m", "keyrack", "serve", "--port", "0"], env=told, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (1, "") and not (directory / "state").exists()
    return ran.stderr


def test_a_file_that_cannot_be_used_keeps_a_server_from_starting(tmp_path: Path) -> None:
    for name, (content, why) in BAD.items():
        path = tmp_path / f"{name}.pmtiles"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BadTiles, match=re.escape(why)):
            check(Settings(map_tiles=str(path)))
    (tmp_path / "directory.pmtiles").mkdir()
    with pytest.raises(BadTiles, match="is no file"):
        check(Settings(map_tiles=str(tmp_path / "directory.pmtiles")))
    path = tmp_path / "torn.pmtiles"
    assert refused(str(path), tmp_path) == f"keyrack: KEYRACK_MAP_TILES: {path} {BAD['torn'][1]}.\n"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("tiles.pmtiles", "is not the absolute path of a .pmtiles file or an address"),
        ("/srv/tiles.mbtiles", "'/srv/tiles.mbtiles' does not end in .pmtiles"),
        ("http://tiles.example/a.pmtiles", "does not begin with https://"),
        ("ftp://tiles.example/a.pmtiles", "does not begin with https://"),
        (
            "https://tiles.example/style.json",
            "does not end in .pmtiles, and does not contain each of {z}, {x} and {y} once",
        ),
        ("https://tiles.example/{z}/{x}.mvt", "does not contain each of {z}, {x} and {y} once"),
        ("https://tiles.example/{z}/{x}/{y}{r}.png", "without other braces"),
        ("https://tiles.example/{z}/{x}/{y}", "does not end in .mvt or .pbf"),
        ("https://{s}.tiles.example/{z}/{x}/{y}.png", "is not an origin"),
        ("https://me:secret@tiles.example/a.pmtiles", "has a user name, a password or a fragment"),
        ("https://tiles.example/a b/{z}/{x}/{y}.png", "Percent-encode them"),
        ("https://tiles.example; script-src */a.pmtiles", "Percent-encode them"),
        ("https://tiles.example;script-src/a.pmtiles", "is not an origin"),
        ("https:///a.pmtiles", "is not an origin"),
    ],
)
def test_a_setting_that_names_no_tiles_is_refused(value: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)) as error:
        Settings(map_tiles=value)
    assert "secret" not in str(error.value.args)


def test_a_command_says_what_is_wrong_with_the_setting(tmp_path: Path) -> None:
    said = refused("https://tiles.example/style.json", tmp_path)
    assert said.startswith(
        "keyrack: A setting is not valid. KEYRACK_MAP_TILES: the address does not end in .pmtiles, and"
    )


def colours(page: Page) -> set[str]:
    """The colours within a square in the middle of the map."""
    box = page.get_by_role("region", name="Map of all cars").bounding_box()
    assert box is not None
    middle = {"x": box["x"] + box["width"] / 4, "y": box["y"] + box["height"] / 3, "width": 80, "height": 80}
    return pixels(page.screenshot(clip=middle))


def pixels(png: bytes) -> set[str]:
    """The colours of a picture as Chromium writes it: 8 bits, not interlaced (PNG, third edition, section 9)."""
    at, packed, head = 8, b"", (0, 0, 0, 0)
    while at < len(png):
        length, name = struct.unpack_from(">I4s", png, at)
        content = png[at + 8 : at + 8 + length]
        if name == b"IHDR":
            head = struct.unpack_from(">IIBB", content)
        packed += content if name == b"IDAT" else b""
        at += length + 12
    wide, high, _, kind = head
    parts = {2: 3, 6: 4}[kind]
    lines, row = zlib.decompress(packed), bytearray(wide * parts)
    found: set[str] = set()
    for number in range(high):
        begin = number * (wide * parts + 1)
        row = unfiltered(lines[begin], lines[begin + 1 : begin + 1 + wide * parts], row, parts)
        found |= {f"#{row[pixel : pixel + 3].hex()}" for pixel in range(0, len(row), parts)}
    return found


def unfiltered(how: int, line: bytes, above: bytearray, parts: int) -> bytearray:
    row = bytearray(line)
    for index in range(len(row)):
        left = row[index - parts] if index >= parts else 0
        corner = above[index - parts] if index >= parts else 0
        up = above[index]
        guess = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
        row[index] = row[index] + (0, left, up, (left + up) // 2, guess)[how] & 0xFF
    return row


def drawn(page: Page, theme: int) -> bool:
    return {TOKENS[name][theme] for name in ("map-green", "map-road-main")} <= colours(page)


def test_streets_are_drawn_from_the_file_of_the_server(driver: Person, streets: RunningServer, desk: Desk) -> None:
    """In the colours of the theme, also with forced colours."""
    page = desk(driver, at=streets, forced_colors="active", viewport={"width": 1280, "height": 900})
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if "/map/" in request.url else None)
    page.goto(f"/console/{driver.customer}")
    expect(page.get_by_text(f"{BORDERS} Places: GeoNames, CC BY 4.0. © OpenStreetMap")).to_be_visible()
    link = page.get_by_role("link", name="openstreetmap.org/copyright")
    assert link.get_attribute("href") == "https://openstreetmap.org/copyright"
    eventually(lambda: drawn(page, 0), "the streets")
    assert {request.url.split("/map/")[0] for request in asked} == {f"{streets.url}/console"}
    assert asked[0].headers["range"] == "bytes=0-16383"  # the directory; what follows is the one tile
    assert len({request.headers["range"] for request in asked}) == 2
    page.emulate_media(color_scheme="dark", forced_colors="none")
    eventually(lambda: drawn(page, 1), "the streets by night")
    expect(page.get_by_text(PARTLY)).to_have_count(0)
    assert faults(page) == []


def picture(red: int, green: int, blue: int) -> bytes:
    """A PNG of one colour, as large as a tile."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    lines = (b"\0" + bytes([red, green, blue]) * 256) * 256
    head = struct.pack(">IIBBBBB", 256, 256, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


@axe.thorough
def test_pictures_of_another_server_are_drawn(dsn: str, settings: Settings, driver: Person, desk: Desk) -> None:
    told = {"map_tiles": f"{ELSEWHERE}/{{z}}/{{x}}/{{y}}.png"}
    with RunningServer(settings.model_copy(update=told), dsn, worker=False) as remote:
        page = desk(driver, at=remote, may_ask=(ELSEWHERE,))
        sent = {"content_type": "image/png", "headers": {"Access-Control-Allow-Origin": "*"}}
        page.route(f"{ELSEWHERE}/**", lambda route: route.fulfill(body=picture(200, 40, 40), **sent))
        page.goto(f"/console/{driver.customer}")
        ours = {TOKENS[name][0] for name in ("map-land", "map-sea")}
        eventually(lambda: page.get_by_role("region", name="Map of all cars").count(), "the map")
        eventually(lambda: not ours & colours(page), "the pictures")
        page.close()


@axe.thorough
def test_a_server_that_fails_is_told_of_once_and_left_alone(
    dsn: str, settings: Settings, town: Town, desk: Desk
) -> None:
    person = town.person("lost")
    car_at(person, "Alster", HAMBURG)
    car_at(person, "Weser", BREMEN)
    person.client.close()
    told = {"map_tiles": f"{ELSEWHERE}/{{z}}/{{x}}/{{y}}.pbf?key=1"}
    status, asked = 404, list[str]()

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=status, headers={"Access-Control-Allow-Origin": "*"})

    with RunningServer(settings.model_copy(update=told), dsn, worker=False) as remote:
        page = desk(person, at=remote, may_ask=(ELSEWHERE,), viewport={"width": 1280, "height": 900})
        page.route(f"{ELSEWHERE}/**", answer)
        page.goto(f"/console/{person.customer}")
        alster = page.get_by_role("rowheader", name="Alster")
        page.get_by_role("button", name="Show Alster on the map").click()
        expect(page.get_by_role("status").get_by_text(PARTLY)).to_be_visible()  # where there is no tile
        expect(page.get_by_text(BORDERS)).to_be_visible()
        status = 503
        page.get_by_role("button", name="Show all").click()
        page.get_by_role("button", name="Show Weser on the map").click()
        expect(page.get_by_role("status").get_by_text(GONE)).to_be_visible()
        expect(alster).to_have_count(0)
        page.get_by_role("button", name="Show all").click()
        expect(alster).to_be_visible()
        before = len(asked)
        page.get_by_role("button", name="Show Alster on the map").click()
        expect(page.get_by_role("rowheader", name="Weser")).to_have_count(0)
        assert len(asked) == before and all(re.fullmatch(rf"{ELSEWHERE}/\d+/\d+/\d+\.pbf\?key=1", url) for url in asked)
        page.close()
