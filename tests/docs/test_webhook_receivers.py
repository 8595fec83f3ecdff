"""The receivers of docs/webhook-receivers.md, as they stand there: they take what is genuine, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from tests.docs.code_blocks import block
from tests.support.people import web
from tests.support.servers import eventually, free_port

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiB0aGUgcGFnZQ=="
BODY = json.dumps({"operationId": "5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55", "operationSucceeded": True}).encode()


def written(name: str) -> str:
    """The block of docs/webhook-receivers.md with the secret put in, as its reader does."""
    text = block("docs/webhook-receivers.md", name).text
    assert '"whsec_..."' in text
    return text.replace("whsec_...", SECRET)


def signed(body: bytes = BODY, at: datetime | None = None, secret: str = SECRET) -> dict[str, str]:
    at = at or datetime.now(UTC)
    return {
        "webhook-id": "5f0c1c1e",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": "v1,b3RoZXI= " + Webhook(secret).sign("5f0c1c1e", at, body.decode()),
    }


def not_genuine() -> list[tuple[dict[str, str], bytes]]:
    late = signed(at=datetime.now(UTC) - timedelta(minutes=6))
    other = signed(secret="whsec_" + "b3RoZXIgc2VjcmV0IG9mIHRoZSBzYW1lIGxlbmd0aA==")
    return [(signed(), BODY + b" "), (late, BODY), (other, BODY), ({}, BODY)]


def test_the_one_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(compile(written("receiver-python"), "webhook-receivers.md", "exec"), names)  # noqa: S102 - the page's own
    names["receive"](signed(), BODY)
    assert capsys.readouterr().out == "5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55 True\n"
    for headers, body in not_genuine():
        with pytest.raises(WebhookVerificationError):
            names["receive"](headers, body)


@contextmanager
def serving(port: int, *command: str | Path) -> Iterator[subprocess.Popen[str]]:
    url = f"http://127.0.0.1:{port}/keyrack"

    def answers() -> bool:
        try:
            return web().post(url, content=BODY).status_code == 401
        except httpx.TransportError:
            return False

    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        eventually(answers, "the receiver")
        yield process
    finally:
        process.terminate()
        process.wait()


def judged(port: int) -> None:
    url = f"http://127.0.0.1:{port}/keyrack"
    assert web().post(url, content=BODY, headers=signed()).status_code == 204
    for headers, body in not_genuine():
        assert web().post(url, content=body, headers=headers).status_code == 401


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_one_in_javascript(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "receiver.mjs"
    file.write_text(written("receiver-js").replace(".listen(4000,", f".listen({port},"))
    with serving(port, "node", file) as process:
        judged(port)
        assert process.stdout is not None
        assert process.stdout.readline() == "5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55 true\n"


@pytest.mark.skipif(shutil.which("php") is None, reason="PHP is not installed (apt-get install php-cli)")
def test_the_one_in_php(tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "receiver.php"
    file.write_text("<?php\n" + written("receiver-php"))
    with serving(port, "php", "-S", f"127.0.0.1:{port}", file):
        judged(port)
