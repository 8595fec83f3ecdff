"""Messages signed by a server are verified by python-cwt and @auth0/cose."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import PublicKey
from keyrack.offline_keys.message_fields import ENTRY, KEY, KEY_SET, PROVISIONING, RECEIPT, STATUS_LIST, TIME, Message
from tests.clients.test_phone import TOOLS
from tests.clients.test_phone import judged as by_auth0
from tests.offline_keys.offline_world import Firmware, Phone, b64, driver, garage, raw
from tests.support.people import Person

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-clients` installs the libraries first")
Asked = list[tuple[bytes, PublicKey]]
JUDGE = Path(__file__).with_name("cwt_verifier.py")


def by_cwt(asked: Asked) -> list[list[int] | None]:
    """The members that python-cwt finds in each message. None if the message is not valid."""

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    given = [
        {"message": text(message), "key": {"x": text(key.x), "y": text(key.y)}, "kid": text(key.kid)}
        for message, key in asked
    ]
    python = Path(TOOLS or "") / "venv/bin/python"
    ran = subprocess.run([python, JUDGE], input=json.dumps(given), capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found: list[list[int] | None] = json.loads(ran.stdout)
    return found


def signed(alice: Person) -> list[tuple[Message, bytes, PublicKey]]:
    """One of each message of a server and a box, with the keys."""
    car, box = garage(alice)
    kim = driver(alice)
    alice.assignment(car, kim.user)
    kim.fetch()
    kim.visit(box)
    receipt = raw(kim.home()["receipts"][0]["receipt"])
    authority = box.state.authority
    (issuing,), (service,) = authority.keys, authority.service_keys
    return [
        (KEY, kim.keys(box)[0], issuing),
        (STATUS_LIST, kim.carried(box)[1], issuing),
        (KEY_SET, raw(kim.held["keySet"]), authority.root),
        (TIME, _time(kim, box), service),
        (RECEIPT, receipt, service),
        (PROVISIONING, _provisioning(alice, box), service),
        (ENTRY, kim.entries[0], box.key.public),
    ]


def _time(kim: Phone, box: Firmware) -> bytes:
    challenge = box.challenge()
    answer = kim.call("POST", "/sdk/time", {"box": challenge.name, "nonce": b64(challenge.nonce)})
    return raw(answer.json()["time"])


def _provisioning(alice: Person, box: Firmware) -> bytes:
    nonce = b64(box.challenge().nonce)
    return raw(alice.get(f"/boxes/{box.product}/provisioning", params={"nonce": nonce}).json()["provisioning"])


def spoilt(message: bytes) -> bytes:
    """The message with one changed bit in its signature."""
    return message[:-1] + bytes([message[-1] ^ 1])


@pytest.fixture
def made(alice: Person) -> list[tuple[Message, bytes, PublicKey]]:
    return signed(alice)


def test_python_cwt_verifies_messages_of_a_server(made: list[tuple[Message, bytes, PublicKey]]) -> None:
    found = by_cwt([(message, key) for _, message, key in made])
    assert found == [sorted(member.key for member in kind.members) for kind, _, _ in made]


def test_auth0_cose_verifies_messages_of_a_server(made: list[tuple[Message, bytes, PublicKey]], tmp_path: Path) -> None:
    said = by_auth0(tmp_path, [(message, key) for _, message, key in made])
    for (kind, _, key), one in zip(made, said, strict=True):
        assert one["verified"], kind.name
        assert (one["kid"], one["typ"]) == (key.kid.hex(), kind.typ)


def test_both_libraries_reject_altered_messages(made: list[tuple[Message, bytes, PublicKey]], tmp_path: Path) -> None:
    altered = [(spoilt(message), key) for _, message, key in made]
    assert by_cwt(altered) == [None] * len(made)
    assert not any(one["verified"] for one in by_auth0(tmp_path, altered))
    for kind, message, _ in made:
        assert cose.read(spoilt(message), kind).claims == cose.read(message, kind).claims, "only the signature differs"
