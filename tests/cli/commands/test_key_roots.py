"""`keyrack keys root`, `request`, `sign` and `accept`: a root on a machine without a network."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.cli.test_operator_commands import Operator
from tests.offline_keys.offline_world import Firmware, Phone, visited
from tests.support.people import NUMBERS, Person, Town


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def person(town: Town) -> Person:
    """A manager of a customer that only this test uses."""
    return town.person(f"roots{next(NUMBERS)}")


class Machine:
    """The machine of an offline root, and its files."""

    def __init__(self, operator: Operator, person: Person, path: Path, name: str = "root") -> None:
        self._operator, self._path = operator, path
        self.of = ("--customer", person.customer)
        self.key = path / f"{name}.key"
        self.public = operator.value("keys", "root", "new", "--root-key", self.key)
        self._files = 0

    def file(self) -> Path:
        self._files += 1
        return self._path / f"{self.key.stem}-{self._files}.json"

    def request(self, *options: Any) -> Path:
        out = self.file()
        self._operator.value("keys", *(options or ("request",)), *self.of, "--out", out)
        return out

    def sign(self, request: Path, *others: Path) -> Path:
        out = self.file()
        keys = [option for key in (self.key, *others) for option in ("--root-key", key)]
        self._operator.value("keys", "sign", request, *keys, "--out", out)
        return out

    def accept(self, signed: Path) -> str:
        return self._operator.value("keys", "accept", signed, *self.of)["root"]

    def move(self, *others: Path) -> None:
        """Move the root to this machine."""
        request = self.request("root", "offline", "--public-key", self.public["publicKey"])
        assert self.accept(self.sign(request, *others)) == self.public["root"]


def assert_opens(person: Person, box: Firmware, phone: Phone, root: str) -> None:
    """A phone carries the new root to one box. Another box is enrolled under it."""
    phone.fetch()
    assert phone.visit(box) is BoxRefusalCode.GOOD
    assert box.challenge().root == bytes.fromhex(root)[:8]
    fresh = Firmware(person.box_in(person.car()))
    fresh.enrol(person)
    assert fresh.challenge().root == bytes.fromhex(root)[:8]


def test_a_root_moves_to_another_machine_and_signs_there(person: Person, operator: Operator, tmp_path: Path) -> None:
    box, phone = visited(person)
    machine = Machine(operator, person, tmp_path)
    assert machine.key.stat().st_mode & 0o777 == 0o600
    machine.move()
    assert operator.value("keys", "show", *machine.of)["root"] == machine.public["root"]
    assert_opens(person, box, phone, machine.public["root"])
    # The server can no longer sign a set or create another root
    for command in (("rotate",), ("rotate", "--revoke", "--yes"), ("root", "replace", "--yes")):
        assert "The root is on another machine." in operator.refused("keys", *command, *machine.of)
    before = operator.value("keys", "list", *machine.of)
    signed = machine.sign(machine.request())
    assert operator.value("keys", "list", *machine.of) == before, "nothing signs before the root has"
    machine.accept(signed)
    assert len(operator.value("keys", "list", *machine.of)) == len(before) + 2
    assert_opens(person, box, phone, machine.public["root"])
    first = phone.keys(box)[0]
    machine.accept(machine.sign(machine.request("request", "--revoke")))
    assert_opens(person, box, phone, machine.public["root"])
    assert phone.open(box, key=first) is BoxRefusalCode.REFUSED


def test_an_offline_root_names_the_next_one(person: Person, operator: Operator, tmp_path: Path) -> None:
    box, phone = visited(person)
    first, second = (Machine(operator, person, tmp_path, name) for name in ("first", "second"))
    first.move()
    assert_opens(person, box, phone, first.public["root"])
    request = second.request("root", "offline", "--public-key", second.public["publicKey"])
    assert "must sign this, but its private key is not on this machine" in operator.refused(
        "keys", "sign", request, "--root-key", second.key, "--out", tmp_path / "x"
    )
    second.move(first.key)
    assert_opens(person, box, phone, second.public["root"])


def test_a_root_that_is_not_there_is_not_named(person: Person, operator: Operator, tmp_path: Path) -> None:
    """A compromised server adds its own root to the request of a rotation."""
    visited(person)
    machine, thief = Machine(operator, person, tmp_path), Machine(operator, person, tmp_path, "thief")
    machine.move()
    request, wrong = machine.request(), tmp_path / "wrong.json"
    value = json.loads(request.read_text())
    named = thief.request("root", "offline", "--public-key", thief.public["publicKey"])
    value["wanted"].append(json.loads(named.read_text())["wanted"][0])
    wrong.write_text(json.dumps(value))
    out = tmp_path / "out"
    errors = operator.refused("keys", "sign", wrong, "--root-key", machine.key, "--out", out)
    assert f"names the new root {thief.public['root']}" in errors
    assert not out.exists()


def test_what_the_root_has_not_signed_is_refused(
    person: Person, operator: Operator, tmp_path: Path, town: Town
) -> None:
    visited(person)
    machine, thief = Machine(operator, person, tmp_path), Machine(operator, person, tmp_path, "thief")
    assert "No request waits for a signature" in operator.refused("keys", "accept", _file(tmp_path, []), *machine.of)
    assert "The root is on the server." in operator.refused("keys", "request", *machine.of, "--out", tmp_path / "r")
    machine.move()
    request = machine.request()
    forged = tmp_path / "forged.json"
    value = json.loads(request.read_text())
    value["wanted"][0]["signer"] = thief.public["publicKey"]
    forged.write_text(json.dumps(value))
    for wrong in (thief.sign(forged), _file(tmp_path, ["AAAA"]), _file(tmp_path, [])):
        assert "the root has not signed it" in operator.refused("keys", "accept", wrong, *machine.of)
    old = machine.sign(request)
    signed = machine.sign(machine.request())
    assert "the root has not signed it" in operator.refused("keys", "accept", old, *machine.of), "of an older request"
    other = town.person(f"roots{next(NUMBERS)}")
    visited(other)
    assert "No request waits" in operator.refused("keys", "accept", signed, "--customer", other.customer)
    machine.accept(signed)
    assert "No request waits" in operator.refused("keys", "accept", signed, *machine.of), "a second time"


def test_a_request_ends_with_the_keys_that_it_stands_on(person: Person, operator: Operator, tmp_path: Path) -> None:
    visited(person)
    machine = Machine(operator, person, tmp_path)
    request = machine.request("root", "offline", "--public-key", machine.public["publicKey"])
    operator.value("keys", "rotate", *machine.of)
    assert "The keys have changed" in operator.refused("keys", "accept", machine.sign(request), *machine.of)


def test_what_are_no_files_of_it(person: Person, operator: Operator, tmp_path: Path) -> None:
    visited(person)
    machine = Machine(operator, person, tmp_path)
    machine.move()
    for text in (
        "",
        "[]",
        "[" * 100_000,
        "{}",
        '{"customer": 1, "wanted": [{}]}',
        '{"signed": [1]}',
        '{"signed": ["?"]}',
    ):
        path = tmp_path / "wrong.json"
        path.write_text(text)
        signing = operator.refused("keys", "sign", path, "--root-key", machine.key, "--out", tmp_path / "out")
        assert "is not a file of" in signing or "not a request of the server" in signing
        refused = operator.refused("keys", "accept", path, *machine.of)
        assert "is not a file of" in refused or "No request waits" in refused
    request = machine.request()
    no_key = operator.refused("keys", "sign", request, "--root-key", request, "--out", tmp_path / "out")
    assert "is not a file of `keyrack keys root new`" in no_key
    assert "already exists. Choose another file." in operator.refused("keys", "root", "new", "--root-key", machine.key)
    nowhere = tmp_path / "nowhere" / "file"
    for command in (("root", "new", "--root-key", nowhere), ("request", *machine.of, "--out", nowhere)):
        said = operator.refused("keys", *command)
        assert said == f"keyrack: {nowhere} cannot be written: No such file or directory.\n"
    wrong = operator.refused(
        "keys", "root", "offline", *machine.of, "--public-key", "AAAA", "--out", os.devnull, status=2
    )
    assert "is not a key" in wrong


def _file(path: Path, signed: list[str]) -> Path:
    file = path / f"made-{len(list(path.iterdir()))}.json"
    file.write_text(json.dumps({"customer": 1, "signed": signed}))
    return file
