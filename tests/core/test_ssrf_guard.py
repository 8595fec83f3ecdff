"""B15: allowed addresses of webhooks, and errors that disclose little."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from typing import Any

import aiohttp
import pytest

from keyrack.core import ssrf_guard
from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import Guard, is_own
from keyrack.webhooks import sender as sending
from keyrack.webhooks.delivery_errors import NOT_REACHED, NOT_TAKEN, TIMED_OUT
from keyrack.webhooks.sender import DeliveryAttempt, Sender
from tests.support.log_lines import captured_events
from tests.support.servers import free_port
from tests.webhooks.delivery_database import LOCAL, Office, plain_request
from tests.webhooks.receiver import Receiver

# One address of each special range, whatever `ipaddress` takes it for
SPECIAL = [
    "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "168.63.129.16", "169.254.169.254",
    "172.16.0.1", "192.0.0.1", "192.0.0.9", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1",
    "192.88.99.2", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "233.252.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::2", "::8.8.8.8", "::ffff:10.0.0.1",
    "::ffff:168.63.129.16", "::ffff:0:8.8.8.8", "64:ff9b::10.0.0.1", "64:ff9b::192.88.99.1", "64:ff9b::168.63.129.16",
    "64:ff9b:1::8.8.8.8", "100::1", "100:0:0:1::1", "2001::1", "2001:1::1", "2001:2::1", "2001:3::1", "2001:4:112::1",
    "2001:10::1", "2001:20::1", "2001:30::1", "2001:db8::1", "2002:808:808::1", "2002:a00:1::1", "2620:4f:8000::1",
    "3fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254", "fe80::1%eth0", "fec0::1", "ff02::1",
    "ff0e::1",
]  # fmt: skip


@pytest.mark.parametrize("address", SPECIAL)
def test_special_addresses_are_dialled_only_if_allowed(address: str) -> None:
    """B15: metadata services, and others that only look public."""
    assert not Guard(Settings()).may_dial(address)
    assert not Guard(Settings()).is_public(address)
    plain = address.partition("%")[0] if "::ffff:0:" in address else address.partition("%")[0].removeprefix("::ffff:")
    assert Guard(Settings(webhook_allowed_networks=plain)).may_dial(address)
    assert not Guard(Settings(webhook_allowed_networks=plain)).is_public(address)
    assert not Guard(Settings(webhook_allowed_networks=plain, webhook_denied_networks=plain)).may_dial(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "64:ff9b::8.8.8.8"])
def test_public_addresses_are_dialled_unless_denied(address: str) -> None:
    assert Guard(Settings()).may_dial(address) and Guard(Settings()).is_public(address)
    assert not Guard(Settings(webhook_denied_networks=address)).may_dial(address)
    assert not Guard(Settings(webhook_denied_networks=address, webhook_allowed_networks=address)).is_public(address)


def test_the_machines_own_addresses_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: on any interface, and also if the kernel allows any address to be bound."""
    for address in ("127.0.0.1", "127.8.9.10", "::1"):
        assert is_own(ipaddress.ip_address(address))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # the interface to the outside, if there is one
        try:
            probe.connect(("192.0.2.77", 9))
            assert is_own(ipaddress.ip_address(probe.getsockname()[0]))
        except OSError as error:
            assert error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH)
    for address in ("8.8.8.8", "2606:2800:220:1::1"):
        assert not is_own(ipaddress.ip_address(address))
    monkeypatch.setattr(ssrf_guard, "_can_bind", lambda _: True)
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert not is_own(ipaddress.ip_address("8.8.8.8"))


def test_the_machines_own_public_address_is_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: as if an interface had a public address."""
    own = ipaddress.ip_address("93.184.216.34")
    monkeypatch.setattr(ssrf_guard, "_can_bind", lambda address: address == own)
    for address in ("93.184.216.34", "::ffff:93.184.216.34", "64:ff9b::93.184.216.34"):
        assert not Guard(Settings()).may_dial(address)
        assert not Guard(Settings()).is_public(address)
        assert Guard(Settings(webhook_allowed_networks="93.184.216.0/24")).may_dial(address)
    assert Guard(Settings()).may_dial("93.184.216.35")


# Disclosure


def send(url: str, settings: Settings = LOCAL) -> DeliveryAttempt:
    async def main() -> DeliveryAttempt:
        sender = Sender(settings)
        try:
            return await sender.send(plain_request(url))
        finally:
            await sender.close()

    return asyncio.run(main())


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that knows some names."""
    known = {"inside.example": "10.1.2.3", "allowed.example": "127.0.0.1", "metadata.example": "168.63.129.16"}
    real = socket.getaddrinfo

    def look_up(host: str, *args: Any, **options: Any) -> Any:
        if host.endswith(".example") and host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(known.get(host, host), *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.usefixtures("names")
def test_an_error_does_not_disclose_names_and_ports() -> None:
    """B15: an unknown name, an internal name, a closed internal port, one without HTTP, a silent one."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        attempts = [
            send("http://nobody.example/"),
            send("http://inside.example/"),
            send("http://metadata.example/"),
            send("http://10.1.2.3/"),
            send(f"http://allowed.example:{free_port()}/"),
            send(f"http://127.0.0.1:{free_port()}/"),
            send(f"http://allowed.example:{silent.getsockname()[1]}/"),
            send(f"https://127.0.0.1:{silent.getsockname()[1]}/"),
        ]
    assert {attempt.error for attempt in attempts} == {NOT_REACHED.text}
    assert all(attempt.hidden and attempt.hidden not in NOT_REACHED.text for attempt in attempts)
    assert len({attempt.hidden for attempt in attempts}) > 3


class Broken:
    """A TLS connection that fails."""

    host, port, is_ssl, ssl = "public.example", 443, True, True


def expired() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "certificate has expired"
    return error


def no_tls() -> ssl.SSLError:
    error = ssl.SSLError(1, "wrong version number")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


KEY: Any = Broken()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), TIMED_OUT.text),
        (aiohttp.ConnectionTimeoutError(), TIMED_OUT.text),
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(errno.ECONNREFUSED, "refused")), NOT_TAKEN.text),
        (aiohttp.ClientConnectorError(KEY, OSError(errno.ENETUNREACH, "unreachable")), None),
        (aiohttp.ClientConnectorError(KEY, ssrf_guard.AddressForbidden("10.0.0.1 is not public")), None),
        (aiohttp.ClientConnectorDNSError(KEY, OSError("no such name")), None),
        (aiohttp.ClientConnectorCertificateError(KEY, expired()),
         "The endpoint's certificate is not valid: certificate has expired."),
        (aiohttp.ClientConnectorSSLError(KEY, no_tls()),
         "The TLS connection to the endpoint failed: WRONG_VERSION_NUMBER."),
        (aiohttp.ClientOSError(errno.ECONNRESET, "reset"), sending.CLOSED.text),
        (aiohttp.InvalidURL("http://public.example"), None),
    ],
)  # fmt: skip
def test_details_are_disclosed_for_public_endpoints_only(
    error: Exception, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(aiohttp.ClientSession, "post", fail)
    public = send("http://93.184.216.34/", Settings())
    assert (public.error, bool(public.hidden)) == (said or NOT_REACHED.text, said is None)
    inside = send("http://10.0.0.1/", Settings(webhook_allowed_networks="10.0.0.0/8"))
    assert (inside.error, bool(inside.hidden)) == (NOT_REACHED.text, True)


def test_the_operator_gets_the_reason_once_and_the_customer_does_not(own: str) -> None:
    """B15: the delivery log has the one text and no duration. The server's log has the reason."""

    port = free_port()

    async def main() -> None:
        async with Office.open(own) as office:
            webhook = await office.webhook(f"http://127.0.0.1:{port}/")
            await office.deliver(webhook, 1)
            async with office.worker():
                await office.until("attempts", "select attempts >= 3 from delivery", True)
            row = await office.sql.fetchrow("select error, duration, status, answer from delivery")
            assert tuple(row) == (NOT_REACHED.text, None, None, None)

    with captured_events("webhook endpoint unreachable") as logs:
        asyncio.run(main())
    # A server of other tests logs in this process, too
    of_port = [line for line in logs if f"Connect call failed ('127.0.0.1', {port})" in line.get("reason", "")]
    assert [line["customer"] for line in of_port] == [1]


def test_the_status_of_every_endpoint_is_disclosed() -> None:
    with Receiver(lambda _: (500, b"broken", {})) as receiver:
        attempt = send(receiver.url)
        assert (attempt.status, attempt.error, attempt.answer) == (500, "The endpoint answered 500.", "broken")
