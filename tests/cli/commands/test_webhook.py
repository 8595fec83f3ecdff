"""`keyrack webhook`: commands for operators and for developers of receivers; explanations of bad signatures."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from keyrack.api.schema.event_types import OUTCOMES
from keyrack.cli.main import application
from keyrack.webhooks.signature_check import diagnose_signature
from keyrack.webhooks.signatures import signature_headers
from tests.support.people import Person
from tests.support.servers import DEADLINE, Process, eventually
from tests.webhooks.receiver import Receiver

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
BODY = b'{"type" : "assignment.created", "name" : "Gr\xc3\xbc\xc3\x9fe"}'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def keyrack(dsn: str) -> Any:
    """A command in this process: its JSON, or its standard error if it fails."""

    def run(*arguments: object, fails: bool = False) -> Any:
        words = ["webhook", *map(str, arguments)]
        result = CliRunner(env={"KEYRACK_DATABASE_URL": dsn}).invoke(
            application("webhook"), words if fails else [*words, "--json"]
        )
        assert bool(result.exit_code) is fails, result.stderr
        return result.stderr if fails else json.loads(result.stdout)

    return run


def test_a_webhook_is_managed(keyrack: Any, alice: Person, receiver: Receiver) -> None:
    added = keyrack("add", receiver.url + "/cli", "--customer", alice.customer, "--secret", "static")
    id = added["id"]
    try:
        assert added["signingSecret"].startswith("whsec_")
        (row,) = keyrack("list", "--customer", alice.customer)
        assert (row["url"], row["enabled"], row["waiting"], row["dead"]) == (receiver.url + "/cli", True, 0, 0)
        assert added["signingSecret"] not in json.dumps(row)
        delivery = keyrack("test", id)["id"]
        eventually(lambda: receiver.of("/cli"), "the test")
        assert receiver.got[0].headers["secret"] == "static"
        assert diagnose_signature(
            receiver.got[0].headers, receiver.got[0].body, added["signingSecret"], datetime.now(UTC)
        ).genuine
        rows = eventually(
            lambda: [r for r in keyrack("deliveries", id, "--only", "Delivered") if r["id"] == delivery], "the log"
        )
        assert (rows[0]["attempts"], rows[0]["status"]) == (1, 200)
        assert keyrack("replay", id, "--delivery", delivery)["count"] == 1
        eventually(lambda: len(receiver.of("/cli")) >= 2, "the replay")
        alice.assignment(alice.car_with_box(), alice.user())
        eventually(lambda: len(receiver.messages()) >= 2, "the outcome")
        assert keyrack("replay", id, "--from", "2020-01-01")["count"] >= 1
        rotated = keyrack("rotate-secret", id)
        assert rotated["signingSecret"] != added["signingSecret"] and rotated["oldSigningSecretUntil"]
        keyrack("change", id, "--kind", "assignment.*", "--kind", "car.*")
        (row,) = keyrack("list", "--customer", alice.customer)
        assert row["kinds"] == [*sorted(OUTCOMES), "car.*"]
        assert row["dialect"] == "keyrack"
        keyrack("change", id, "--dialect", "standard-webhooks")
        (row,) = keyrack("list", "--customer", alice.customer)
        assert row["dialect"] == "standard-webhooks"
        assert "Valid: keyrack, standard-webhooks" in keyrack("change", id, "--dialect", "xml", fails=True)
        keyrack("change", id, "--kind", "assignment.deleted", "--disable", "--secret", "")
        (row,) = keyrack("list", "--customer", alice.customer)
        assert (row["enabled"], row["kinds"]) == (False, ["assignment.deleted"])
        assert "disabled" in keyrack("test", id, fails=True)
        assert "There is no delivery" not in keyrack("replay", id, "--delivery", 1, fails=True)
    finally:
        keyrack("remove", id, "--yes")
    assert keyrack("list", "--customer", alice.customer) == []


def test_a_pull_webhook_is_added(keyrack: Any, alice: Person, bob: Person) -> None:
    added = keyrack("add", "--pull", "--customer", alice.customer, "--name", "Billing", "--kind", "car.updated")
    try:
        (row,) = keyrack("list", "--customer", alice.customer)
        assert (row["id"], row["pull"], row["url"], row["name"]) == (added["id"], True, None, "Billing")
        assert keyrack("test", added["id"])["id"]
        messages = alice.get(f"/webhooks/{added['id']}/messages").json()
        assert [message["type"] for message in messages] == ["webhook.test"]
        assert diagnose_signature(
            messages[0]["headers"], messages[0]["body"].encode(), added["signingSecret"], datetime.now(UTC)
        ).genuine
        assert bob.get(f"/webhooks/{added['id']}/messages").status_code == 404
    finally:
        keyrack("remove", added["id"], "--yes")
    for arguments in (("add", "--customer", alice.customer), ("add", "https://a.example", "--pull", "--customer", 1)):
        assert "either a URL or --pull" in keyrack(*arguments, fails=True)
    assert "250" in keyrack("add", "--pull", "--customer", alice.customer, "--name", "n" * 251, fails=True)


def test_what_cannot_be_is_refused(keyrack: Any, alice: Person) -> None:
    assert "no customer" in keyrack("add", "https://example.org", "--customer", 2**31 - 1, fails=True)
    assert "https://" in keyrack("add", "ftp://example.org", "--customer", alice.customer, fails=True)
    told = keyrack("add", "https://a.example", "--customer", 1, "--kind", "car.craeted", fails=True)
    assert "Did you mean" in told and "car.created" in told
    for command in ("remove", "rotate-secret", "deliveries", "test", "change"):
        assert "There is no webhook" in keyrack(command, 2**31 - 1, fails=True)
    assert "Choose either --delivery" in keyrack("replay", 1, fails=True)


def headers(body: bytes = BODY, secrets: tuple[str, ...] = (SECRET,), age: float = 0) -> dict[str, str]:
    when = datetime.fromtimestamp(time.time() - age, UTC)
    return {name.title(): value for name, value in signature_headers(body.decode(), "msg_1", secrets, when).items()}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in headers().items() if key != name}


def as_text(key: bytes) -> dict[str, str]:
    return headers(secrets=("whsec_" + base64.b64encode(key).decode(),))


FINER = {3: "milliseconds", 6: "microseconds", 9: "nanoseconds"}


def in_unit(zeros: int, age: float = 0) -> dict[str, str]:
    """The headers with a timestamp of so many more digits. The signature is that of the seconds."""
    own = headers(age=age)
    return own | {"Webhook-Timestamp": own["Webhook-Timestamp"] + "123456789"[:zeros]}


NOW = datetime.now(UTC)  # when the table was signed
WHY = [
    (headers(), BODY, SECRET, None),
    (headers(secrets=(OTHER, SECRET)), BODY, SECRET, None),
    (without("Webhook-Id"), BODY, SECRET, "webhook-id is missing"),
    (without("Webhook-Signature"), BODY, SECRET, "webhook-signature is missing"),
    (headers(age=400), BODY, SECRET, "40[0-2] seconds old"),
    (headers(age=-400), BODY, SECRET, "Your clock is behind"),
    (headers() | {"Webhook-Timestamp": "now"}, BODY, SECRET, "not a number of seconds"),
    (headers() | {"Webhook-Timestamp": "9" * 5_000}, BODY, SECRET, "not a number of seconds"),
    *((in_unit(zeros), BODY, SECRET, f"^[^.]* is in {unit}[.] [^.]*[.]$") for zeros, unit in FINER.items()),
    (headers(age=-400) | in_unit(3, -400), BODY, SECRET, "is in milliseconds.*Your clock is behind"),
    (headers(), BODY, "s3cret!", "not base64"),
    (headers(), BODY, "whsec_", "empty"),
    (headers() | {"Webhook-Signature": "AAAA"}, BODY, SECRET, "has no version"),
    (headers() | {"Webhook-Signature": "v1,###"}, BODY, SECRET, "cut off or changed"),
    (headers() | {"Webhook-Signature": "v2,AAAA"}, BODY, SECRET, "no signature of version v1"),
    (headers(), BODY + b"\n", SECRET, "without the line break"),
    (headers(), json.dumps(json.loads(BODY)).encode(), SECRET, "written again"),
    (headers(), json.dumps(json.loads(BODY), separators=(",", ":")).encode(), SECRET, "written again"),
    (as_text(SECRET.encode()), BODY, SECRET, "decoded from base64"),
    (as_text(SECRET.removeprefix("whsec_").encode()), BODY, SECRET, "decoded from base64"),
    (headers(), BODY, OTHER, "Another secret"),
    (headers(secrets=(OTHER, OTHER)), BODY, SECRET, "None of the 2"),
    (headers(), BODY.replace(b"created", b"deleted"), SECRET, "was changed"),
]


@pytest.mark.parametrize(("given", "body", "secret", "why"), WHY)
def test_it_says_why_a_signature_fails(given: dict[str, str], body: bytes, secret: str, why: str | None) -> None:
    verdict = diagnose_signature(given, body, secret, NOW)
    assert verdict.genuine is (why is None), verdict
    if why:
        assert re.search(why, " ".join(verdict.reasons)), verdict


def test_verify_as_a_command(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_bytes(BODY)
    given = headers()
    options = [
        *("--secret", SECRET, "--id", "msg_1", "--timestamp", given["Webhook-Timestamp"]),
        *("--signature", given["Webhook-Signature"]),
    ]
    good = CliRunner().invoke(application("webhook"), ["webhook", "verify", str(tmp_path / "body.json"), *options])
    assert (good.exit_code, good.stdout) == (0, "The signature is valid.\n")
    bad = CliRunner().invoke(application("webhook"), ["webhook", "verify", "-", *options], input=BODY + b"\n")
    assert (bad.exit_code, "without the line break" in bad.stdout) == (1, True)


def test_listen_prints_and_verifies_what_arrives() -> None:
    process = Process("webhook", "listen", "--port", "0", "--secret", SECRET, "--count", "2", "--json")
    try:
        out: Any = process.popen.stdout
        url = json.loads(out.readline())["url"]
        for body in (BODY, BODY + b" "):
            request = urllib.request.Request(url, body, headers(), method="POST")
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                assert answer.status == 204
        first, second = json.loads(out.readline()), json.loads(out.readline())
        assert first["genuine"] and first["body"] == BODY.decode()
        assert not second["genuine"]
        threading.Timer(10, process.popen.kill).start()
        assert process.popen.wait(DEADLINE) == 0
    finally:
        process.popen.kill()
        process.popen.communicate()


@pytest.mark.parametrize("length", ["-1", "abc", "99999999999", "9" * 30, "\u00b2"])
def test_listen_refuses_a_senseless_length(length: str) -> None:
    """None of them may take memory, or hold the connection."""
    process = Process("webhook", "listen", "--port", "0", "--count", "1", "--json")
    try:
        out: Any = process.popen.stdout
        where = urlsplit(json.loads(out.readline())["url"])
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        with socket.create_connection((where.hostname or "", where.port or 0), timeout=DEADLINE) as connection:
            connection.sendall(head.encode("latin-1"))
            assert connection.recv(1_000).startswith(b"HTTP/1.1 400 ")
        with socket.create_connection((where.hostname or "", where.port or 0), timeout=DEADLINE) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")  # an end within the body
        with urllib.request.urlopen(where.geturl(), b"{}", timeout=DEADLINE) as answer:
            assert answer.status == 204
        assert json.loads(out.readline())["body"] == "{}"  # neither of the others counts
    finally:
        process.popen.kill()
        process.popen.communicate()


def test_a_nested_body_is_diagnosed() -> None:
    verdict = diagnose_signature(headers(), b"[" * 200_000, SECRET, datetime.now(UTC))
    assert (verdict.genuine, "No signature fits" in verdict.reasons[0]) == (False, True)
