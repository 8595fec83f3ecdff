"""Keyrack behind nginx with the configuration of deploy/nginx, except for names and ports."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from keyrack.core.settings import Settings
from tests.console.pmtiles import pmtiles
from tests.support.event_stream import Watcher
from tests.support.people import Person, Town, fetch, refused
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually, free_port
from tests.support.systemd import Load, activated
from tests.telemetry.endpoints.test_ingest import unit_of

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy/nginx/keyrack.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MAIN = """\
{user}
daemon off;
pid {directory}/pid;
error_log {directory}/error.log warn;
worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  include {directory}/keyrack.conf;
}}
"""
SECURE = "max-age=31536000"

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]


def certificate(directory: Path) -> None:
    """A self-signed certificate for the machine's address, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "keyrack.example.com")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (directory / "key.pem").write_bytes(secret)


class Nginx:
    """nginx in front of a server on a local port."""

    def __init__(self, directory: Path) -> None:
        self.plain, self.port = free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.cert = directory / "cert.pem"
        certificate(directory)
        self._directory = directory
        self._command = [str(NGINX), "-c", str(directory / "nginx.conf"), "-e", str(directory / "error.log")]

    @contextmanager
    def before(self, port: int) -> Iterator[Nginx]:
        """Run nginx after a successful check of its configuration."""
        self._configure(port)
        checked = subprocess.run([*self._command, "-t"], capture_output=True, text=True, timeout=DEADLINE)
        said = (self._directory / "error.log").read_text()
        assert (checked.returncode, said) == (0, ""), checked.stderr
        process = subprocess.Popen(self._command)
        try:
            eventually(self._listens, "nginx")
            yield self
        finally:
            process.terminate()
            process.wait(DEADLINE)

    def _configure(self, port: int) -> None:
        directory = self._directory
        text = re.sub(r"(?m)^ *listen \[::\].*\n", "", CONFIGURATION.read_text())
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{self.plain};"),
            ("listen 443 ssl http2;  ", f"listen 127.0.0.1:{self.port} ssl http2;"),
            ("127.0.0.1:8080 ", f"127.0.0.1:{port} "),
            ("/etc/ssl/keyrack.example.com.pem", str(self.cert)),
            ("/etc/ssl/private/keyrack.example.com.key", str(directory / "key.pem")),
        ):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (directory / "keyrack.conf").write_text(text)
        user = "user root;" if os.geteuid() == 0 else ""  # only the owner can read pytest's directories
        (directory / "nginx.conf").write_text(MAIN.format(directory=directory, user=user))

    def _listens(self) -> bool:
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.port)) == 0

    def client(self, source: str = "127.0.0.1") -> httpx.Client:
        transport = httpx.HTTPTransport(
            verify=ssl.create_default_context(cafile=str(self.cert)), local_address=source, trust_env=False
        )
        return httpx.Client(base_url=self.url, transport=transport, timeout=DEADLINE)


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiles") / "region.pmtiles"
    path.write_bytes(pmtiles({(0, 0, 0): b""}, (5.0, 52.0, 11.0, 55.0)))
    return path


@contextmanager
def fronted(directory: Path, settings: Settings, dsn: str) -> Iterator[tuple[RunningServer, Nginx]]:
    """A server whose public URL is that of nginx in front of it."""
    nginx = Nginx(directory)
    with RunningServer(settings, dsn, public_url=nginx.url) as running, nginx.before(running.port):
        yield running, nginx


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, dsn: str, settings: Settings, tiles: Path
) -> Iterator[tuple[RunningServer, Nginx]]:
    told = settings.model_copy(update={"map_tiles": str(tiles)})
    with fronted(tmp_path_factory.mktemp("nginx"), told, dsn) as both:
        yield both


@pytest.fixture(scope="module")
def nginx(front: tuple[RunningServer, Nginx]) -> Nginx:
    return front[1]


@pytest.fixture(scope="module")
def somebody(sql: Sql, front: tuple[RunningServer, Nginx]) -> Person:
    return Town(sql, front[0]).person("behind nginx")


@pytest.fixture
def client(nginx: Nginx, somebody: Person) -> Iterator[httpx.Client]:
    with nginx.client() as client:
        client.headers.update(somebody.headers)
        yield client


def test_browsers_speak_http_2(nginx: Nginx) -> None:
    context = ssl.create_default_context(cafile=str(nginx.cert))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", nginx.port), timeout=DEADLINE) as line,
        context.wrap_socket(line, server_hostname="127.0.0.1") as secured,
    ):
        assert secured.selected_alpn_protocol() == "h2"
    if "HTTP2" in subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout:
        asked = ["curl", "-sS", "--http2", "--cacert", str(nginx.cert), "-w", " %{http_version}", f"{nginx.url}/v3"]
        assert subprocess.run(asked, capture_output=True, text=True, timeout=DEADLINE).stdout.endswith(" 2")


def test_nginx_adds_only_strict_transport_security(nginx: Nginx, client: httpx.Client) -> None:
    answer = client.get("/v3/cars", headers={"X-Request-Id": "from-the-client"})
    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"] == SECURE
    assert answer.headers.get_list("x-request-id") == ["from-the-client"]
    page = client.get("/console/sign-in")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "nginx/" not in page.headers["server"]


def test_plain_http_redirects_pages_and_rejects_the_api(nginx: Nginx) -> None:
    plain = f"http://127.0.0.1:{nginx.plain}"
    led = fetch("GET", f"{plain}/console/1?x=2")
    assert (led.status_code, led.headers["location"]) == (308, "https://keyrack.example.com/console/1?x=2")
    other = fetch("GET", f"{plain}/console", headers={"Host": "attacker.example"})
    assert (other.status_code, other.headers["location"]) == (308, "https://keyrack.example.com/console")
    refused = fetch("GET", f"{plain}/v3/cars", headers={"vendor-API-Key": "secret"})
    assert (refused.status_code, refused.text) == (403, "Use https.\n")


def test_a_large_write_gets_the_error_of_keyrack(
    front: tuple[RunningServer, Nginx], client: httpx.Client, somebody: Person
) -> None:
    assert client.put("/v3/cars", json={"name": "Car"}).status_code == 201
    large = b'{"name": "' + b"x" * 1_200_000 + b'"}'
    as_json = {"Content-Type": "application/json"}
    direct = somebody.put("/cars", content=large, headers=as_json)
    for body in (large, iter([large[:700_000], large[700_000:]])):  # with and without Content-Length
        answer = client.put("/v3/cars", content=body, headers=as_json)
        assert (answer.status_code, answer.text) == (413, direct.text)
    assert client.get("/v3/cars", params={"$filter": "x" * 9_000}).status_code == 414


def test_nginx_accepts_deliveries_up_to_the_limit_of_keyrack(client: httpx.Client, somebody: Person) -> None:
    """Units deliver that much after a week without a network."""
    unit = unit_of(somebody)
    headers = {"Device-Key": unit.key, "Content-Type": "application/x-ndjson"}
    line = json.dumps(unit.sample(5, rpm=5)).encode().ljust(60_000) + b"\n"
    whole = line * (7_900_000 // len(line))
    answer = client.post("/v3/ingest/telemetry", content=whole, headers=headers)
    assert answer.status_code == 200, answer.text
    answer = client.post("/v3/ingest/telemetry", content=whole + line * 3, headers=headers)
    refused(answer, 413, "The body must be smaller than 8000000 bytes.")


def test_range_requests_work_behind_nginx(
    front: tuple[RunningServer, Nginx], nginx: Nginx, somebody: Person, tiles: Path
) -> None:
    with nginx.client() as browser:
        form = {"username": somebody.username, "password": somebody.password}
        signed_in = browser.post("/console/sign-in", data=form, headers={"Origin": nginx.url})
        assert signed_in.status_code == 303, signed_in.text
        page = browser.get(f"/console/{somebody.customer}").text
        told = re.search(r'data-tiles="(/console/map/[0-9a-f]{32}/tiles\.pmtiles)"', page)
        assert told is not None
        answer = browser.get(told[1], headers={"Range": "bytes=7-99"})
        assert (answer.status_code, answer.content) == (206, tiles.read_bytes()[7:100])


def test_keyrack_gets_the_real_client_address(nginx: Nginx, somebody: Person, sql: Sql) -> None:
    with nginx.client("127.0.0.7") as browser:
        form = {"username": somebody.username, "password": somebody.password}
        headers = {"Origin": nginx.url, "X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9"}
        assert browser.post("/console/sign-in", data=form, headers=headers).status_code == 303
    assert sql.value("select count(*) from session where address = '127.0.0.7'") == 1
    assert sql.value("select count(*) from session where address like '203.%'") == 0


def test_live_updates_arrive_at_once(client: httpx.Client) -> None:
    with client.stream("GET", "/v3/live") as stream:
        assert stream.status_code == 200
        watcher = Watcher(stream)
        eventually(lambda: watcher.lines, "the beginning of the stream")
        before = len(watcher.lines)
        assert client.put("/v3/cars", json={"name": "Seen"}).status_code == 201
        eventually(lambda: len(watcher.lines) > before, "what has changed")
        stream.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        watcher.ends()


def states(port: int) -> list[str]:
    """The server-side states of connections at a local port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[3] for row in rows if row[1].endswith(f":{port:04X}") and row[3] != "0A"]


def test_upstream_connections_are_reused(tmp_path: Path, dsn: str, settings: Settings, somebody: Person) -> None:
    with fronted(tmp_path, settings, dsn) as (running, nginx), nginx.client() as client:
        for _ in range(10):
            assert client.get("/v3/cars", headers=somebody.headers).status_code == 200
            assert client.put("/v3/cars", headers=somebody.headers, json={"name": "Car"}).status_code == 201
        assert states(running.port) == ["01"]  # one established connection


class Closing:
    """A server that closes each connection at its second request."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[str] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            with line:
                for answered in (True, False):
                    request = line.recv(65_536).decode()
                    self.heard.append(request.partition(" ")[0])
                    if answered:
                        line.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
def test_nginx_retries_reads_and_not_writes(tmp_path: Path, method: str) -> None:
    """The outcome of a request is unknown if a kept connection ends. nginx repeats only a read."""
    server = Closing()
    with Nginx(tmp_path).before(server.port) as nginx, nginx.client() as client:
        assert client.get("/v3").status_code == 204
        answer = client.request(method, "/v3/cars", content=b"{}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "repeat the write with the same Idempotency-Key" in answer.text and answer.headers["x-request-id"]
        assert server.heard == ["GET", method]
        assert [client.get("/v3").status_code for _ in range(2)] == [204, 204]
        assert server.heard == ["GET", method, "GET", "GET", "GET"]
    server.close()


def test_a_restart_behind_nginx_fails_no_request(tmp_path: Path, dsn: str, sql: Sql) -> None:
    with activated(dsn, "--no-worker") as systemd, Nginx(tmp_path).before(systemd.port) as nginx:
        person = Town(sql, systemd).person("proxied")
        with nginx.client() as one, nginx.client() as two:

            def write(_: httpx.Client) -> httpx.Response:
                return one.put("/v3/cars", headers=person.headers, json={"name": "Car"})

            def read(_: httpx.Client) -> httpx.Response:
                return two.get("/v3/cars?$top=1", headers=person.headers)

            with Load(write, read) as load:
                eventually(lambda: len(load.answers) > 50, "answers")
                systemd.restart()
                before = len(load.answers)
                eventually(lambda: len(load.answers) > before + 50, "answers of its successor")
        assert (load.failures, set(load.answers)) == ([], {200, 201})
        assert sql.value("select count(*) from car where customer_id = $1", person.customer) == load.answers.count(201)
