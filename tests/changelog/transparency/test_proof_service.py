"""Proofs over the API: `GET /changes/checkpoint` and `GET /changes/{changeId}/proof`."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from keyrack.changelog.transparency.signed_notes import Note
from keyrack.core.settings import Settings
from tests.changelog.transparency.checkpoints import Signing
from tests.changelog.transparency.test_go_verifier import LOG, program
from tests.changelog.transparency.test_go_verifier import asked as asked_in_go
from tests.changelog.transparency.test_go_verifier import pytestmark as in_go
from tests.docs.code_blocks import block
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, Sql, migrated_database

__all__ = ["program"]

PROBLEM = {"Accept": "application/problem+json"}
TEXT = {"Accept": "text/plain"}


@pytest.fixture(scope="module")
def dsn(database_server: str) -> Iterator[str]:
    """A database without other sequencers and signers."""
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture(scope="module")
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


@pytest.fixture(scope="module")
def server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def town(sql: Sql, server: RunningServer) -> Town:
    return Town(sql, server)


@pytest.fixture
def alice(town: Town) -> Iterator[Person]:
    person = town.person("alice")
    yield person
    person.client.close()


@pytest.fixture
def bob(town: Town) -> Iterator[Person]:
    person = town.person("bob")
    yield person
    person.client.close()


@pytest.fixture
def signing(dsn: str, sql: Sql, tmp_path: Path) -> Signing:
    return Signing(dsn, tmp_path, sql)


def newest(person: Person) -> int:
    return person.sql.value("select last_id from change_log where customer_id = $1", person.customer)


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def proven(proof: dict[str, Any], folder: Path, *, fails: bool = False) -> str:
    """The output of the program in docs/log-verification.md, an independent verifier, for a proof."""
    (folder / "proof.json").write_text(json.dumps(proof))
    program = ["python", "-c", block("docs/log-verification.md", "prover").text, str(folder / "proof.json")]
    program[0] = sys.executable
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert bool(ran.returncode) is fails, ran.stderr
    return ran.stdout


def test_before_there_is_a_checkpoint(alice: Person, signing: Signing) -> None:
    signing.write(alice.customer)
    assert refused(alice.get("/changes/checkpoint", headers=PROBLEM)) == (404, "no-checkpoint")
    assert refused(alice.get("/changes/1/proof", headers=PROBLEM)) == (404, "no-checkpoint")


def test_the_newest_checkpoint_as_json_and_as_text(alice: Person, bob: Person, signing: Signing) -> None:
    signing.write(alice.customer, 3)
    signing.write(bob.customer, 300)
    signing.sign()
    told = alice.get("/changes/checkpoint").json()
    (made,) = signing.made(alice.customer)
    assert told == {
        "customerId": alice.customer, "epoch": str(made.epoch), "size": newest(alice),
        "root": base64.b64encode(made.root).decode(), "time": f"{made.at:%Y-%m-%dT%H:%M:%SZ}", "note": made.note,
        "consistency": None,
    }  # fmt: skip
    text = alice.get("/changes/checkpoint", headers=TEXT)
    assert (text.headers["content-type"], text.text) == ("text/plain; charset=utf-8", made.note)
    Note.read(text.content).verify(signing.keys(alice.customer))
    tag = {"If-None-Match": text.headers["etag"]}
    assert alice.get("/changes/checkpoint", headers=TEXT | tag).status_code == 304
    assert alice.get("/changes/checkpoint", headers=tag).status_code == 200  # the tag is of the other representation
    signing.write(alice.customer)
    signing.sign()
    assert alice.get("/changes/checkpoint", headers=TEXT | tag).status_code == 200


def test_another_verifier_accepts_the_proof_of_each_change(alice: Person, signing: Signing, tmp_path: Path) -> None:
    signing.write(alice.customer, 520)
    signing.sign()
    size = newest(alice)
    for number in (1, 2, 255, 256, 257, 512, 513, size):
        proof = alice.get(f"/changes/{number}/proof").json()
        assert (proof["id"], proof["index"], proof["checkpoint"]["size"]) == (number, number - 1, size)
        assert proof["checkpoint"] == alice.get("/changes/checkpoint").json()
        if number in (2, size):
            assert proven(proof, tmp_path) == f"Change {number} is in the log of {size} changes.\n"
    proof["inclusion"][-1] = base64.b64encode(bytes(32)).decode()
    proven(proof, tmp_path, fails=True)


def test_a_change_after_the_checkpoint_is_not_proven_yet(alice: Person, signing: Signing) -> None:
    signing.write(alice.customer)
    signing.sign()
    size = newest(alice)
    signing.write(alice.customer)
    answer = alice.get(f"/changes/{size + 1}/proof", headers=PROBLEM)
    assert refused(answer) == (404, "change-not-proven")
    assert f"which covers {size} changes." in answer.json()["detail"]
    signing.sign()
    assert alice.get(f"/changes/{size + 1}/proof").json()["checkpoint"]["size"] == size + 1


@pytest.mark.parametrize("number", ["0", "-1", "x", "99999", "9223372036854775807", "99999999999999999999"])
def test_an_unknown_number_gives_404(number: str, alice: Person, signing: Signing) -> None:
    signing.write(alice.customer)
    signing.sign()
    assert refused(alice.get(f"/changes/{number}/proof", headers=PROBLEM)) == (404, "change-not-found")


def test_a_number_whose_month_was_dropped(alice: Person, signing: Signing) -> None:
    signing.write(alice.customer, 5)
    signing.sign()
    alice.sql.execute("delete from change where customer_id = $1 and change_id < 3", alice.customer)
    alice.sql.execute("update change_log set oldest_id = 3 where customer_id = $1", alice.customer)
    answer = alice.get("/changes/2/proof", headers=PROBLEM)
    assert refused(answer) == (410, "cursor-gone")
    assert (answer.json()["oldest"], answer.json()["newest"]) == (3, newest(alice))
    assert alice.get("/changes/3/proof").status_code == 200  # the stored hashes of dropped changes suffice


def test_a_change_that_was_altered_is_not_proven(alice: Person, signing: Signing) -> None:
    signing.write(alice.customer, 5)
    signing.sign()
    altered = "update change set record = record || '\\x00' where customer_id = $1 and change_id = 3"
    alice.sql.execute(altered, alice.customer)
    assert refused(alice.get("/changes/3/proof", headers=PROBLEM)) == (409, "log-altered")
    assert alice.get("/changes/4/proof").status_code == 200
    alice.sql.execute("delete from change_tile where customer_id = $1", alice.customer)
    assert refused(alice.get("/changes/4/proof", headers=PROBLEM)) == (409, "log-altered")
    assert refused(alice.get("/changes/checkpoint?since=1", headers=PROBLEM)) == (409, "log-altered")


def test_a_checkpoint_that_is_ahead_is_refused(alice: Person, signing: Signing) -> None:
    signing.write(alice.customer)
    signing.sign()
    size = newest(alice)
    for since in (0, size):
        assert alice.get(f"/changes/checkpoint?since={since}").json()["consistency"] == []
    answer = alice.get(f"/changes/checkpoint?since={size + 1}", headers=PROBLEM)
    assert refused(answer) == (404, "checkpoint-ahead")
    assert refused(alice.get("/changes/checkpoint?since=x", headers=PROBLEM)) == (400, "invalid-query-parameter")


def test_proofs_of_other_customers_are_hidden(alice: Person, bob: Person, signing: Signing) -> None:
    signing.write(alice.customer, 5)
    signing.write(0, 5)
    signing.sign()
    for path in ("/changes/checkpoint", "/changes/1/proof"):
        mine = alice.get(path)
        others = [bob.get(path, headers={"Customer-ID": str(one)}) for one in (alice.customer, 0, 2147483647)]
        assert {(answer.status_code, answer.text) for answer in others} == {(404, others[-1].text)}
        assert alice.get(path).content == mine.content
    signing.write(bob.customer)
    signing.sign()
    assert bob.get("/changes/1/proof").json()["checkpoint"]["customerId"] == bob.customer


@in_go
def test_go_verifies_the_answers(alice: Person, signing: Signing, program: Path) -> None:
    """Go's own library reads the notes, the inclusion and the consistency as they come by HTTP."""
    signing.write(alice.customer, 300)
    signing.sign()
    old = alice.get("/changes/checkpoint", headers=TEXT).text
    size = newest(alice)
    signing.write(alice.customer, 400)
    signing.sign()
    new = alice.get(f"/changes/checkpoint?since={size}").json()
    proof = alice.get("/changes/290/proof").json()
    log, time = signing.keys(alice.customer)
    ran = asked_in_go(
        program,
        {
            "Notes": [old, new["note"]], "Key": str(log), "Cosigner": time.name,
            "Id": int.from_bytes(time.id, "big"), "Public": base64.b64encode(time.public).decode(),
            "Record": proof["record"], "Index": proof["index"], "Inclusion": proof["inclusion"],
            "Consistent": new["consistency"], "Secret": LOG.secret,
        },
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split("\n")[:4] == [
        f"note {log.name} {size} 2", f"note {log.name} {size + 400} 2", "inclusion 289",
        f"consistency {size} {size + 400}",
    ]  # fmt: skip
