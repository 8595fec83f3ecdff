"""The vectors: the generator makes the file, and the reference box agrees.

Each refused message becomes valid by one correction, which it names.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import pytest

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.cbor import CborError, decode, encode
from keyrack.offline_keys.link_messages import EntriesMessage, Result, read
from keyrack.offline_keys.message_fields import ENTRY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import Own, signer
from tests.offline_keys.vectors import vector_file
from tests.offline_keys.vectors.message_recipes import MESSAGES, Json, changed, message, spliced
from tests.offline_keys.vectors.state_json import changes, load
from tests.support.cases import for_all

INPUT = ("state", "set", "tick", "link", "random")


@functools.cache
def file() -> Json:
    return json.loads(vector_file.PATH.read_text())


def groups() -> dict[str, Any]:
    return {group["type"]: group for group in file()["testGroups"]}


def vectors_of(kind: str) -> list[Json]:
    return groups()[kind]["tests"]


def numbered(kind: str) -> dict[int, Json]:
    return {test["tcId"]: test for test in vectors_of(kind)}


def name(test: Json) -> str:
    return f"{test['tcId']} {test['comment']}"


def test_the_generator_makes_the_file() -> None:
    assert vector_file.PATH.read_text() == vector_file.text(), "python -m tests.offline_keys.vectors.vector_file"


@for_all("test", vectors_of("Box"), label=name)
def test_the_box_agrees_with_the_vectors(test: Json) -> None:
    outcome, changes = vector_file.hear(test, bytes.fromhex(test["message"]), groups()["Box"]["states"])
    assert (int(outcome.code), int(outcome.effect), outcome.reply.hex()) == (
        test["code"],
        test["effect"],
        test["reply"],
    )
    assert json.loads(json.dumps(changes)) == test["changes"]
    assert (test["result"] == "valid") is (outcome.code is BoxRefusalCode.GOOD)


@for_all("test", vectors_of("Box"), label=name)
def test_a_refused_message_differs_in_one_thing_from_a_valid_one(test: Json) -> None:
    """The recipe of a valid message builds it. That of a refused message is the valid one with the change."""
    good = numbered("Box")[test.get("mends", test["tcId"])]
    assert good["result"] == "valid"
    given: Json = {each: good[each] for each in (*INPUT, "recipe")}
    if "mends" in test:
        given = changed(given, test["change"])
    assert {each: given[each] for each in INPUT} == {each: test[each] for each in INPUT}
    built, _, _ = vector_file.run(given, groups()["Box"]["states"])
    assert built.message.hex() == test["message"]
    assert {part: signed.hex() for part, signed in built.signed.items()} == test["toBeSigned"]


@for_all("test", vectors_of("Reading"), label=name)
def test_messages_are_read(test: Json) -> None:
    good = numbered("Reading")[test.get("mends", test["tcId"])]
    assert good["result"] == "valid"
    recipe = good["recipe"] if "mends" not in test else changed(good["recipe"], test["change"])
    data, signed = message(recipe)
    assert (data.hex(), signed.hex()) == (test["message"], test["toBeSigned"])
    try:
        cose.read(data, MESSAGES[test["expects"]])
        code = BoxRefusalCode.GOOD
    except cose.MessageRefused as refused:
        code = refused.code
    assert code == test["code"]
    if "kept" in test:
        assert cose.read_entry(data).raw.hex() == test["kept"]


def test_the_signatures_of_entries_have_a_low_s() -> None:
    """A box produces it, if the deterministic nonce gives a high one."""
    results = [read(reply, Result) for reply in replies() if reply[1] == 6]
    lists = [read(reply, EntriesMessage) for reply in replies() if reply[1] == 8]
    entries = [result.entry for result in results if result.entry]
    entries += itertools.chain.from_iterable(each.entries for each in lists)
    entries += [bytes.fromhex(test["entry"]) for test in vectors_of("Start") if test["entry"]]
    signed = [cose.read(entry, ENTRY) for entry in entries]
    assert [entry for entry in signed if cose.with_low_s(entry.signature) != entry.signature] == []
    given = [signer("box").sign(entry.to_be_signed) for entry in signed]
    turned = [one for one, entry in zip(given, signed, strict=True) if one != entry.signature]
    assert len(signed) // 4 < len(turned) < len(signed)


def replies() -> list[bytes]:
    return [bytes.fromhex(test["reply"]) for test in vectors_of("Box")]


@for_all("test", vectors_of("Encoding"), label=name)
def test_items_are_decoded(test: Json) -> None:
    data = bytes.fromhex(test["item"])
    if "mends" not in test:
        assert encode(decode(data)) == data
        return
    good = numbered("Encoding")[test["mends"]]
    assert good["result"] == "valid"
    assert spliced(bytes.fromhex(good["item"]), test["change"]) == data
    with pytest.raises(CborError):
        decode(data)


def test_each_code_has_a_refused_message_and_each_flag_a_description() -> None:
    tests = list(itertools.chain.from_iterable(group["tests"] for group in file()["testGroups"]))
    assert len(tests) == file()["numberOfTests"]
    assert {test.get("code", 0) for test in tests} == set(BoxRefusalCode) - {BoxRefusalCode.REFUSED}
    assert {test.get("wireCode") for test in tests} >= {
        BoxRefusalCode.GOOD,
        BoxRefusalCode.REFUSED,
        BoxRefusalCode.REVOKED,
        BoxRefusalCode.STALE,
    }
    assert {flag for test in tests for flag in test["flags"]} == set(file()["notes"]) == set(vector_file.FLAGS)


def test_the_wire_has_one_code_until_possession_is_proven() -> None:
    told = [test for test in vectors_of("Box") if test["result"] == "invalid" and test["wireCode"] != 1]
    assert told
    for test in told:
        assert test["wireCode"] == test["code"], test["comment"]


def test_a_link_is_proven_by_a_driver_of_the_box() -> None:
    proven = {
        BoxRefusalCode(test["code"])
        for test in vectors_of("Box")
        if "answer" in test["toBeSigned"]
        and test["wireCode"] != 1
        and test["changes"].get("links", [{"provenAt": None}] * 3)[test["link"]]["provenAt"] is not None
    }
    assert proven == {BoxRefusalCode.GOOD, BoxRefusalCode.UNCERTAIN, BoxRefusalCode.STALE, BoxRefusalCode.RIGHT}


@for_all("test", vectors_of("Connect"), label=name)
def test_a_link_begins_as_in_the_vectors(test: Json) -> None:
    before = load(groups()["Box"]["states"][test["state"]] | test["set"])
    after, place = firmware.connect(before, test["tick"])
    assert place == test["link"]
    assert json.loads(json.dumps(changes(before, after))) == test["changes"]


@for_all("test", vectors_of("Start"), label=name)
def test_a_box_starts_as_in_the_vectors(test: Json) -> None:
    before = load(groups()["Box"]["states"][test["state"]] | test["set"])
    after = firmware.start(before.kept, test["tick"], test["elapsed"], Own())
    entries = after.kept.log.entries[len(before.kept.log.entries) :] if test["entry"] else ()
    assert b"".join(entries).hex() == test["entry"]
    assert json.loads(json.dumps(changes(before, after))) == test["changes"]
