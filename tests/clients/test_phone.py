"""reference/phone: its messages are verified by another COSE library, and its types are checked.

`make test-phone` installs npm's packages into the directory KEYRACK_CLIENTS.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyrack.offline_keys import cose, message_fields
from keyrack.offline_keys.message_fields import Message
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import PublicKey
from tests.clients.tools import TOOLS, put_node
from tests.drivers.app_tree import copy_app
from tests.offline_keys.phone_world import NONCE, World, b64, unb64

pytestmark = pytest.mark.skipif(not TOOLS, reason="`make test-phone` installs the packages first")
HERE = Path(__file__).parent
PHONE = HERE.parents[1] / "reference/phone"


def run(directory: Path, *command: str, given: str = "") -> str:
    ran = subprocess.run(
        command,
        cwd=directory,
        env=put_node(Path(TOOLS or "")),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def judged(directory: Path, messages: list[tuple[bytes, PublicKey]]) -> list[dict[str, Any]]:
    """The results of @auth0/cose for these messages."""
    shutil.copy(HERE / "cose.mjs", directory)
    (directory / "node_modules").symlink_to(Path(TOOLS or "") / "node_modules")
    asked = [{"message": b64(message), "key": b64(key.encoded)} for message, key in messages]
    said: list[dict[str, Any]] = json.loads(run(directory, "node", "cose.mjs", given=json.dumps({"messages": asked})))
    return said


def signed() -> list[tuple[Message, bytes, PublicKey]]:
    """A message of each kind that a phone handles, with its signing key."""
    world, phone = World(), PrivateKey.generate()
    claims = {"sub": "somebody", "cnf": phone.public, "nonce": NONCE}
    registration = cose.sign(message_fields.REGISTRATION, phone.public.kid, claims, phone.sign)
    device = world.put_device(registration)["id"]
    entry = world.box.kept.log.entries[0]
    receipt = world.put_log([entry])["receipts"][0]["receipt"]
    answer = world.keys(device)
    issuing, service = world.issuing[0].public, world.service[0].public
    root = world.root.public
    world.replace_root()
    return [
        (message_fields.REGISTRATION, registration, phone.public),
        (message_fields.KEY, unb64(answer["keys"][0]["key"]), issuing),
        (message_fields.STATUS_LIST, unb64(answer["boxes"][0]["statusLists"][0]["statusList"]), issuing),
        (message_fields.KEY_SET, unb64(answer["keySet"]), root),
        (message_fields.ROOT, world.roots[0], root),
        (message_fields.TIME, unb64(world.time("box:1041:3", bytes(16))["time"]), service),
        (message_fields.RECEIPT, unb64(receipt), service),
        (message_fields.ENTRY, entry, world.box_key.public),
    ]


def test_another_library_verifies_signed_messages(tmp_path: Path) -> None:
    made = signed()
    said = judged(tmp_path, [(message, key) for _, message, key in made])
    for (kind, _, key), one in zip(made, said, strict=True):
        keys = {member.key for member in kind.members}
        assert one["verified"], kind.name
        assert (one["kid"], one["typ"], set(one["members"])) == (key.kid.hex(), kind.typ, keys)


def test_another_library_rejects_foreign_and_altered_messages(tmp_path: Path) -> None:
    other = PrivateKey.generate().public
    made = signed()
    foreign = [(message, other) for _, message, _ in made]
    altered = [(message[:-1] + bytes([message[-1] ^ 1]), key) for _, message, key in made]
    assert judged(tmp_path, foreign + altered) == [{"verified": False}] * 2 * len(made)


def test_the_phone_passes_the_type_check(tmp_path: Path) -> None:
    compiler = Path(TOOLS or "") / "node_modules/typescript/bin/tsc"
    run(tmp_path, "node", str(compiler), "-p", str(PHONE / "jsconfig.json"))


def test_the_drivers_app_passes_the_type_check(tmp_path: Path) -> None:
    root = copy_app(tmp_path)
    options = {"extends": "./phone/jsconfig.json", "include": ["*.js", "pages/*.js"]}
    (root / "jsconfig.json").write_text(json.dumps(options))
    compiler = Path(TOOLS or "") / "node_modules/typescript/bin/tsc"
    run(tmp_path, "node", str(compiler), "-p", str(root / "jsconfig.json"))
