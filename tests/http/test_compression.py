"""gzip: same bytes, no complete-looking aborted response, and no compressed secrets."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import asyncpg
import falcon.asgi
import falcon.testing
import httpx
import pytest
from pydantic import TypeAdapter

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Response
from keyrack.core.settings import Settings
from keyrack.http.compression import Compression
from keyrack.http.routes import ALL
from tests.http.test_contract import ENDLESS, calling, name, over, query_of
from tests.http.test_hostile_input import Line, head
from tests.http.test_prefer_header import user
from tests.http.test_slow_clients import FAST, everything, reader
from tests.http.test_tenant_isolation import slots, world
from tests.support.people import Person, Town, web
from tests.support.servers import RunningServer, Sql, eventually

GZIP = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}
SMALL = {"list_chunk_rows": 7, "gzip_min_bytes": 1, "gzip_offload_min_bytes": 500}


@pytest.fixture(scope="module")
def fleet(alice: Person, sql: Sql) -> Person:
    """A fleet whose list is long enough for compression and shorter than one chunk."""
    sql.execute(
        "insert into car (customer_id, name, description) select $1, 'Car ' || n, 'of the fleet'"
        " from generate_series(1, 40) n",
        alice.customer,
    )
    return alice


@pytest.fixture(scope="module")
def eager(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that compresses every response that it may, in threads and in chunks."""
    with RunningServer(settings.model_copy(update=SMALL), dsn, worker=False) as running:
        yield running


def raw(url: str, path: str, headers: dict[str, str], method: str = "GET") -> tuple[httpx.Response, bytes]:
    """Return the response and its undecoded body."""
    with web().stream(method, f"{url}{path}", headers=headers) as answer:
        return answer, b"".join(answer.iter_raw())


# Negotiation


@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ("gzip", True),
        ("GZip", True),
        ("x-gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("gzip;q=0.001", True),
        ("gzip ; q=1.000", True),
        ("*", True),
        ("*;q=0.5", True),
        ("identity;q=0.5, gzip;q=0.5", True),
        ("identity;q=0, gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0, x-gzip", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("gzip;q=1e9", False),
        ("gzip;q=-1", False),
        ("gzip;q=2", False),
        ("gzip;q=nan", False),
        ("gzip;q=0.0001", False),
        ("gzip;q=", False),
        ("gzip;x=1", False),
        ("x-*", False),
        ("gzip/q=1", False),
        ('"gzip"', False),
        ("gzipped", False),
        ("\xff\xfe", False),
        (",;=,", False),
        ("gzip," * 6_000, False),
        ("gzip," + "x;q=0.5," * 3_000, False),
        ("identity;q=0", False),
    ],
    ids=range(37),
)
def test_accept_encoding_decides_about_compression(
    fleet: Person, server: RunningServer, header: str, packed: bool
) -> None:
    headers: Any = fleet.headers | {"Accept-Encoding": header.encode("latin-1")}
    answer, body = raw(server.url, "/v3/cars", headers)
    assert answer.status_code == 200
    assert answer.headers.get("content-encoding") == ("gzip" if packed else None)
    assert answer.headers["vary"] == "Accept-Encoding"
    plain = raw(server.url, "/v3/cars", fleet.headers | PLAIN)[1]
    assert (gzip.decompress(body) if packed else body) == plain
    assert int(answer.headers["content-length"]) == len(body)
    assert (len(body) < len(plain)) == packed


def test_without_the_header_nothing_is_compressed(fleet: Person, server: RunningServer) -> None:
    with Line(server) as line:
        line.send(head(fleet, "GET", "/v3/cars"))
        answer = line.reply()
    assert "content-encoding" not in answer.headers
    assert (answer.headers["vary"], answer.text[:7]) == ("Accept-Encoding", '[{"id":')


def test_several_accept_encoding_headers_are_combined(fleet: Person, server: RunningServer) -> None:
    for lines, packed in ((("br", "gzip"), True), (("gzip;q=0", "*"), False)):
        with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
            connection.putrequest("GET", "/v3/cars", skip_accept_encoding=True)
            for field, value in (*fleet.headers.items(), *(("Accept-Encoding", value) for value in lines)):
                connection.putheader(field, value)
            connection.endheaders()
            assert connection.getresponse().getheader("content-encoding") == ("gzip" if packed else None)


def test_small_responses_are_compressed_only_without_an_alternative(fleet: Person, server: RunningServer) -> None:
    path = f"/v3/cars/{fleet.car('Small')}"
    answer, plain = raw(server.url, path, fleet.headers | GZIP)
    assert not {"content-encoding", "vary"} & set(answer.headers)
    answer, body = raw(server.url, path, fleet.headers | {"Accept-Encoding": "gzip, identity;q=0"})
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == plain
    refusal, text = raw(server.url, "/v3/cars/0", fleet.headers | {"Accept-Encoding": "gzip, identity;q=0"})
    assert (refusal.status_code, text[:14]) == (404, b"Unable to find")


def test_compression_can_be_disabled(fleet: Person, dsn: str, settings: Settings) -> None:
    with RunningServer(settings.model_copy(update={"gzip_min_bytes": 0}), dsn, worker=False) as running:
        answer, _ = raw(running.url, "/v3/cars", fleet.headers | GZIP)
    assert not {"content-encoding", "vary"} & set(answer.headers)


@pytest.mark.parametrize(
    ("answer", "headers"),
    [
        (Response(200, b"x" * 2_000, {"ETag": '"a"'}), {"ETag": '"a-gzip"', "Content-Encoding": "gzip"}),
        (Response(200, b"x" * 2_000, {"ETag": 'W/"a"'}), {"ETag": 'W/"a"', "Content-Encoding": "gzip"}),
        (Response(200, b"x" * 2_000, {"Vary": "Accept"}), {"Vary": "Accept, Accept-Encoding"}),
        (Response(200, b"x" * 2_000, {"Content-Encoding": "br"}), {"Content-Encoding": "br", "Vary": None}),
        (Response(200, b"x" * 2_000, media_type="image/png"), {"Content-Encoding": None, "Vary": None}),
        (Response(304, None, {"ETag": '"b"'}), {"ETag": '"b"', "Vary": "Accept-Encoding"}),
        (
            Response(304, None, {"ETag": '"a-gzip"'}),
            {"ETag": '"a-gzip"', "Vary": "Accept-Encoding", "Content-Encoding": None},
        ),
        (Response(204), {"Content-Encoding": None, "Vary": None}),
    ],
    ids=range(8),
)
def test_compressed_responses_have_the_right_headers(answer: Response, headers: dict[str, str | None]) -> None:
    asked = {"Accept-Encoding": "gzip", "If-None-Match": '"z", "a-gzip"'}
    request = falcon.asgi.Request(falcon.testing.create_scope(headers=asked), None)
    packed = asyncio.run(Compression(Settings()).packed(request, answer))
    assert {name: packed.headers.get(name) for name in headers} == headers
    assert packed.status == answer.status


# The same bytes

# Endpoints with more than one media type
VARY = dict.fromkeys(("/changes", "/changes/checkpoint", "/boxes/{productId}/status"), "Accept, Accept-Encoding")
READS = [endpoint for endpoint in ALL if endpoint.method == "GET" and endpoint not in ENDLESS]


@over(READS)
def test_decompressed_bodies_equal_uncompressed_ones(endpoint: Endpoint, alice: Person, eager: RunningServer) -> None:
    ids = world(endpoint, alice) if slots(endpoint) else {}
    headers = calling(endpoint, alice).headers
    fixed = {"searchDate": "2026-01-01T00:00:00Z", "brand": "Nobody", "keyFormId": "1"}
    path = "/v3" + endpoint.path.format(**fixed | ids) + query_of(endpoint)
    if {"from", "to"} <= {option.name for option in endpoint.query_parameters if not option.is_required}:
        path += "?to=2026-01-01T00:00:00Z"  # the default of `to` is the current time

    def asked() -> tuple[httpx.Response, bytes, httpx.Response, bytes, httpx.Response, bytes] | None:
        """Compare gzip and HEAD with the plain responses before and after. None after a concurrent change."""
        plain, first = raw(eager.url, path, headers | PLAIN)
        packed, body = raw(eager.url, path, headers | GZIP)
        with_head, nothing = raw(eager.url, path, headers | GZIP, "HEAD")
        stays = raw(eager.url, path, headers | PLAIN)[1] == first
        return (plain, first, packed, body, with_head, nothing) if stays else None

    plain, bytes_, packed, body, with_head, nothing = eventually(asked, "an answer that stays")
    assert packed.status_code == plain.status_code
    if plain.status_code == 200 and not endpoint.responses.has_secret:
        vary = VARY.get(endpoint.path, "Accept-Encoding")
        assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", vary)
        assert plain.headers["vary"] == vary
    assert (gzip.decompress(body) if "content-encoding" in packed.headers else body) == bytes_
    assert packed.headers["content-type"] == plain.headers["content-type"]
    if (tag := plain.headers.get("etag")) is not None:
        assert packed.headers["etag"] == tag[:-1] + '-gzip"'
    assert nothing == b""
    for header in ("content-type", "content-encoding", "vary", "content-length", "etag"):
        assert with_head.headers.get(header) == packed.headers.get(header), header


@pytest.mark.parametrize("order", ["", "?$orderby=brand"], ids=["pieces", "file"])
def test_a_long_list_is_one_gzip_stream(fleet: Person, eager: RunningServer, order: str) -> None:
    plain = raw(eager.url, f"/v3/cars{order}", fleet.headers | PLAIN)[1]
    answer, body = raw(eager.url, f"/v3/cars{order}", fleet.headers | GZIP)
    assert "content-length" not in answer.headers
    unpacker = zlib.decompressobj(wbits=31)
    assert unpacker.decompress(body) == plain
    assert unpacker.eof and not unpacker.unused_data


def test_the_first_chunk_does_not_wait_for_the_others(fleet: Person, eager: RunningServer, dsn: str) -> None:
    """Compressed data is sent at once, before the whole response exists."""

    async def first(parts: Iterator[bytes]) -> bytes:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await connection.execute("lock table car in access exclusive mode")
                return await asyncio.to_thread(next, parts)
        finally:
            await connection.close()

    with web().stream("GET", f"{eager.url}/v3/cars", headers=fleet.headers | GZIP) as answer:
        came = asyncio.run(first(parts := answer.iter_raw()))
        assert zlib.decompressobj(wbits=31).decompress(came).startswith(b'[{"id":')
        assert gzip.decompress(came + b"".join(parts)).endswith(b"]")


@pytest.mark.parametrize("order", ["", "?$orderby=brand"], ids=["pieces", "file"])
def test_http_1_0_clients_get_plain_bytes_with_a_length(fleet: Person, eager: RunningServer, order: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", eager.port)) as connection:
        connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"
        connection.request("GET", f"/v3/cars{order}", headers=fleet.headers | GZIP)
        answer = connection.getresponse()
        body = answer.read()
    assert (answer.getheader("content-encoding"), answer.getheader("transfer-encoding")) == (None, None)
    assert int(answer.getheader("content-length") or 0) == len(body)
    assert body == raw(eager.url, f"/v3/cars{order}", fleet.headers | PLAIN)[1]


def test_large_responses_are_compressed_in_a_bounded_number_of_threads(
    fleet: Person, dsn: str, settings: Settings
) -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("gzip")}

    bounds = settings.model_copy(update={"gzip_offload_min_bytes": 3_000, "gzip_threads": 1})
    with RunningServer(bounds, dsn, worker=False) as running, ThreadPoolExecutor(8) as clients:
        before = threads()
        for query, started in (("$top=15", 0), ("$top=1000", 1)):
            path = f"/v3/cars?{query}"
            list(clients.map(lambda path: raw(running.url, path, fleet.headers | GZIP), [path] * 16))
            assert len(threads() - before) == started
            plain = len(raw(running.url, path, fleet.headers | PLAIN)[1])
            assert (plain >= 3_000) == bool(started) and plain >= 1_000


# Aborted responses


@pytest.fixture(scope="module")
def heavy(town: Town) -> Person:
    """A fleet whose compressed list does not fit into the buffers of a connection.

    Its random text has no letters or digits. Millions of them in the search index would delay the cars of other tests
    by a minute.
    """
    person = town.person("harriet")
    for _ in range(6):
        person.execute_unrecorded(
            "insert into car (customer_id, name, description) select $1, 'Heavy', translate("
            "(select string_agg(md5(random()::text || n || m), '') from generate_series(1, 125) m), $2, $3)"
            " from generate_series(1, 500) n",
            "0123456789abcdef", "!#$%&()*+,-./:;<",
        )  # fmt: skip
    return person


def test_an_aborted_response_has_no_end(heavy: Person, dsn: str, settings: Settings) -> None:
    async def locked(parts: Iterator[bytes], unpacker: Any) -> None:
        connection = await asyncpg.connect(dsn)
        try:
            async with connection.transaction():
                await connection.execute("lock table car in access exclusive mode")
                with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                    await asyncio.to_thread(lambda: [unpacker.decompress(part) for part in parts])
        finally:
            await connection.close()

    unpacker = zlib.decompressobj(wbits=31)
    with RunningServer(settings.model_copy(update={"lock_timeout_seconds": 0.1}), dsn, worker=False) as running:
        with web().stream("GET", f"{running.url}/v3/cars", headers=heavy.headers | GZIP) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            parts = answer.iter_raw()
            assert unpacker.decompress(next(parts)).startswith(b'[{"id":')
            asyncio.run(locked(parts, unpacker))
        assert not unpacker.eof


@pytest.mark.parametrize("order", ["", "?$orderby=brand"], ids=["pieces", "file"])
def test_a_client_that_reads_nothing_is_disconnected(
    heavy: Person, dsn: str, settings: Settings, order: str, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    with RunningServer(settings.model_copy(update=FAST), dsn, worker=False) as running, reader(running.port) as line:
        line.sendall(head(heavy, "GET", f"/v3/cars{order}", "Accept-Encoding: gzip"))
        eventually(
            lambda: said.append("".join(capfd.readouterr())) or "slow client disconnected" in "".join(said), "the log"
        )
        answer = everything(line)
        assert web().get(f"{running.url}/v3/customers", headers=heavy.headers).status_code == 200
    assert b"\r\ncontent-encoding: gzip\r\n" in answer
    assert not answer.endswith(b"0\r\n\r\n")


# Uncompressed responses


SECRETS = ("password", "secret", "token", "'link'", "'codes'")  # parts of the names of secret members


def test_responses_with_a_secret_are_not_compressed(alice: Person, eager: RunningServer) -> None:
    """BREACH: the length of a compressed response could reveal a secret. See docs/decisions, "compression"."""
    showing = {
        name(endpoint) for endpoint in ALL if endpoint.responses.has_secret and endpoint.tag.name != "Driver app"
    }
    assert showing == {
        "POST /batch",
        "POST /oauth2/token",
        "POST /sdk/token",
        "POST /me/totp",
        "POST /me/recovery-codes",
        "PUT /managers",
        "POST /users/{userId}/app-invitation",
        "PUT /clients",
        "PUT /clients/{clientId}/secrets",
        "PUT /users",
        "PUT /webhooks",
        "POST /webhooks/{webhookId}/rotate-secret",
        "GET /webhooks/{webhookId}/messages",
    }
    for endpoint in ALL:
        if (
            endpoint.tag.name == "Driver app"
        ):  # its responses with a session are never compressed, whatever their members
            continue
        members = str(TypeAdapter(endpoint.responses.model).json_schema() if endpoint.responses.model else "").lower()
        assert endpoint.responses.has_secret == any(word in members for word in SECRETS), name(endpoint)
    headers = alice.headers | {"Accept-Encoding": "gzip, identity;q=0", "Prefer": "return=representation"}
    form = {"username": alice.username, "password": alice.password, "grant_type": "password"}
    url = {"url": "https://hooks.example.org/" + "a" * 1_900}
    person = {**user(), "type": "Normal", "userData": {"firstName": "a" * 250, "lastName": "a" * 250}}
    made = web().put(f"{eager.url}/v3/webhooks", json=url, headers=headers)
    for answer in (
        made,
        web().put(f"{eager.url}/v3/users", json=person, headers=headers),
        web().post(f"{eager.url}/v3/webhooks/{made.json()['id']}/rotate-secret", headers=headers),
        web().post(f"{eager.url}/v3/oauth2/token", data=form, headers={"vendor-API-Key": alice.api_key} | GZIP),
    ):
        assert answer.status_code in (200, 201), answer.text
        assert "content-encoding" not in answer.headers
    read, _ = raw(eager.url, f"/v3/webhooks/{made.json()['id']}", alice.headers | GZIP)
    assert read.headers["content-encoding"] == "gzip"  # a read shows no secret


def test_a_shown_representation_is_compressed(alice: Person, server: RunningServer) -> None:
    headers = alice.headers | GZIP | {"Prefer": "return=representation"}
    answer = web().put(f"{server.url}/v3/cars", json={"name": "Long", "description": "x" * 4_000}, headers=headers)
    assert (answer.status_code, answer.json()["description"]) == (201, "x" * 4_000)
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Prefer, Accept-Encoding")


def test_documents_are_compressed_once(server: RunningServer) -> None:
    for path in ("/openapi.json", "/docs"):
        plain = raw(server.url, path, PLAIN)[1]
        bodies = {raw(server.url, path, GZIP)[1] for _ in range(3)}
        assert {gzip.decompress(body) for body in bodies} == {plain}
        assert len(bodies) == 1 and len(next(iter(bodies))) < len(plain) / 5
