"""The test vectors of the log's bytes: the code and the verifier of docs/log-format.md agree with them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyrack.changelog.transparency.signed_notes import Checkpoint, Note, VerificationKey
from tests.changelog.transparency import vectors
from tests.docs.code_blocks import ROOT, block

VECTORS: dict[str, Any] = json.loads(vectors.FILE.read_text())
LOGS = {log["name"]: log for log in VECTORS["logs"]}


def test_the_vectors_are_what_the_code_makes() -> None:
    """If this fails, existing logs would not verify any more: it is a new `VERSION`, or a fault."""
    assert vectors.FILE.read_text() == vectors.text()


def test_an_erased_change_leaves_the_proof_as_it_was() -> None:
    whole, erased = LOGS["five changes"], LOGS["five changes, the second of them erased"]
    assert erased["export"] != whole["export"]
    assert "example.com" not in erased["export"][2]
    for same in ("records", "hashes", "leaves", "tree", "root", "checkpoint"):
        assert erased[same] == whole[same]


@pytest.fixture(scope="module")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The program of the page, run by a Python without Keyrack."""
    program = tmp_path_factory.mktemp("verifier") / "verifier.py"
    program.write_text(block("docs/log-format.md", "verifier").text)

    def run(lines: list[str]) -> subprocess.CompletedProcess[str]:
        export = program.with_name("export.jsonl")
        export.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        command = [sys.executable, "-I", "-S", program, export]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("name", LOGS)
def test_the_verifier_of_the_page_finds_what_the_checkpoint_says(name: str, verifier: Any) -> None:
    log = LOGS[name]
    ran = verifier(log["export"])
    assert (ran.returncode, ran.stderr) == (0, "")
    note = Note.read(log["checkpoint"].encode())
    assert ran.stdout.split() == note.text.split()[1:]
    keys = [VerificationKey.read(text) for text in VECTORS["keys"].values()]
    assert set(note.verify(keys)) == {*keys}
    assert Checkpoint.read(note.text).root.hex() == log["root"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"odometer":1234.5', '"odometer":1234.6'), ('"name":"anna"', '"name":"hanna"'), ("[4,9]", "[9,4]"),
        ('"kind":"car.deleted"', '"kind":"car.updated"'), ("T14:05:07.000007Z", "T14:05:07.000008Z"),
        ('"last":5', '"last":6'), ("Äpfel", "Apfel"), ('"id":2,', '"id":3,'), ('"resourceId":"3"', '"resourceId":"33"'),
    ],
)  # fmt: skip
def test_the_verifier_of_the_page_finds_what_was_altered(was: str, now: str, verifier: Any) -> None:
    lines = LOGS["five changes"]["export"]
    assert any(was in line for line in lines)
    ran = verifier([line.replace(was, now) for line in lines])
    assert ran.returncode == 1
    assert "AssertionError" in ran.stderr


def test_the_checkpoint_of_the_page_is_that_of_the_vectors() -> None:
    """docs/log-format.md shows it with shortened signatures."""
    page = (ROOT / Path("docs/log-format.md")).read_text()
    text, _, signatures = LOGS["five changes"]["checkpoint"].partition("\n\n")
    assert text in page
    for line in signatures.splitlines():
        shown = re.search(rf"^{re.escape(line[: line.rindex(' ') + 1])}(\S+)\.\.\.$", page, re.MULTILINE)
        assert shown and line.rpartition(" ")[2].startswith(shown[1])
