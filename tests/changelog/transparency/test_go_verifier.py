"""Go's own library for notes and transparency logs verifies Keyrack's proofs.

`apt-get install golang-go golang-golang-x-mod-dev` installs both; without them the tests are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyrack.changelog.transparency.merkle_proofs import consistency, inclusion
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.transparency.signed_notes import COSIGNATURE, Checkpoint, Note, NoteSigner, signed

LIBRARY = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog")
HERE = Path(__file__).parent
RECORDS = [f"record {number}".encode() for number in range(1000)]
LEAVES = [leaf_hash(record) for record in RECORDS]
LOG = NoteSigner.make("keyrack.example.com/customers/3", seed=b"l" * 32)
TIME = NoteSigner.make("keyrack.example.com/time", COSIGNATURE, seed=b"t" * 32)
OLD, NEW, INDEX = 421, 1000, 700

pytestmark = pytest.mark.skipif(
    shutil.which("go") is None or not LIBRARY.is_dir(), reason="no Go with golang.org/x/mod (Debian's packages)"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("go") / "verify"
    go = {"GO111MODULE": "off", "GOPATH": str(LIBRARY.parents[5]), "GOFLAGS": "", "CGO_ENABLED": "0"}
    cache = {"GOCACHE": os.environ.get("GOCACHE") or str(built.parent / "cache")}
    subprocess.run(["go", "build", "-o", built, HERE / "verify.go"], check=True, env=os.environ | go | cache)
    return built


def checkpoint(size: int) -> str:
    text = str(Checkpoint(LOG.key.name, size, Tree.of(LEAVES[:size]).root))
    return bytes(signed(text, LOG, TIME, at=1_795_442_706)).decode()


def shown(**changed: Any) -> dict[str, Any]:
    encoded = {
        "Record": RECORDS[INDEX],
        "Inclusion": inclusion(LEAVES, INDEX),
        "Consistent": consistency(LEAVES, OLD),
        "Public": TIME.key.public,
    } | changed
    return {
        "Notes": [checkpoint(OLD), checkpoint(NEW)], "Key": str(LOG.key), "Cosigner": TIME.key.name,
        "Id": int.from_bytes(TIME.key.id, "big"), "Index": INDEX, "Secret": LOG.secret,
        **{name: in_base64(value) for name, value in encoded.items()},
    }  # fmt: skip


def in_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [in_base64(one) for one in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def asked(program: Path, told: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program], input=json.dumps(told), capture_output=True, text=True, timeout=60)


def test_go_verifies_the_proofs(program: Path) -> None:
    ran = asked(program, shown())
    assert (ran.returncode, ran.stderr) == (0, "")
    *said, note = ran.stdout.split("\n", 4)
    assert said == [
        "note keyrack.example.com/customers/3 421 2", "note keyrack.example.com/customers/3 1000 2",
        "inclusion 700", "consistency 421 1000",
    ]  # fmt: skip
    assert Note.read(note.encode()).verify([LOG.key]) == {LOG.key: None}


def test_go_rejects_altered_proofs(program: Path) -> None:
    spoilt = [b"x" * 32, *inclusion(LEAVES, INDEX)[1:]]
    for changed in (
        {"Record": RECORDS[INDEX + 1]}, {"Inclusion": spoilt}, {"Consistent": consistency(LEAVES, OLD - 1)},
        {"Public": LOG.key.public}, {"Notes": [checkpoint(OLD), checkpoint(NEW).replace("\n1000\n", "\n1001\n")]},
    ):  # fmt: skip
        ran = asked(program, shown(**changed))
        assert ran.returncode == 1, changed
