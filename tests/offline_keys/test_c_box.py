"""The box in C: the decisions of the Python box, and its size."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature

from keyrack.offline_keys import status_list_bits
from keyrack.offline_keys.box import links
from keyrack.offline_keys.box.lock_operation import LockAction
from keyrack.offline_keys.box.state import BoxMemory, TokenBucket
from keyrack.offline_keys.link_messages import LONGEST, Enrol, Fetch, Open, Provision, Result, hello, write
from keyrack.offline_keys.public_key import CURVE_B, MODULUS, ORDER
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import box_conversations, c_box, c_sources, c_structs, fuzz_boxes
from tests.offline_keys.c_box import CBox
from tests.offline_keys.c_sources import BOX
from tests.offline_keys.vectors.state_json import dump, load

CODE_MOST = 64 * 1024  # without the crypto library
RAM_MOST = 16 * 1024
STACK_MOST = 4 * 1024  # of the transports; a message takes more
REFUSED = write(Result(BoxRefusalCode.REFUSED))
SEED = 20261125
MUTANTS = 8_000
STREAMS = 8_000
STEPS = 600  # of a conversation
REACHED = {  # by conversations
    BoxRefusalCode.GENERATION, BoxRefusalCode.OLDER, BoxRefusalCode.FUTURE, BoxRefusalCode.ISSUING_KEY,
    BoxRefusalCode.LIST, BoxRefusalCode.REVOKED, BoxRefusalCode.STALE, BoxRefusalCode.UNCERTAIN, BoxRefusalCode.RIGHT,
    BoxRefusalCode.AUDIENCE, BoxRefusalCode.COUNTER, BoxRefusalCode.NONCE, BoxRefusalCode.BUSY, BoxRefusalCode.NOT_NOW,
}  # fmt: skip


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return c_box.library()


@pytest.fixture(scope="module")
def box(library: ctypes.CDLL) -> CBox:
    return CBox(library, fuzz_boxes.own_key())


def described(state: BoxMemory, tick: int) -> dict[str, Any]:
    """A state as vectors have it, with buckets filled up to the tick."""
    members = dump(c_structs.at(state, tick))
    del members["log"]["entries"]  # vectors have only some of them
    return members


def after(before: dict[str, Any], changes: dict[str, Any], tick: int) -> dict[str, Any]:
    """The state after a vector."""
    log = {"entries": {}} | (before | changes)["log"]
    return described(load(before | changes | {"log": log}), tick)


def test_items_of_the_vectors(library: ctypes.CDLL) -> None:
    wrong = [
        test["comment"]
        for test in fuzz_boxes.vectors("Encoding")
        if bool(library.kr_test_cbor(item := bytes.fromhex(test["item"]), ctypes.c_size_t(len(item)), 0))
        != (test["result"] == "valid")
    ]
    assert wrong == []


def test_messages_of_the_vectors(box: CBox) -> None:
    states, wrong, proven = fuzz_boxes.states(), [], Counter[bool]()
    for test in fuzz_boxes.vectors("Box"):
        before = states[test["state"]] | test["set"]
        box.load(load(before), test["tick"])
        outcome = box.receive(test["link"], bytes.fromhex(test["message"]), test["tick"], bytes.fromhex(test["random"]))
        found = (outcome.code, outcome.effect, outcome.reply.hex())
        expected = (test["code"], test["effect"], test["reply"])
        state = box.state()
        is_proven = links.is_proven(state, test["link"], test["tick"])
        if (
            found != expected
            or described(state, test["tick"]) != after(before, test["changes"], test["tick"])
            or box.is_proven(test["link"]) is not is_proven
        ):
            wrong.append((test["tcId"], test["comment"], found))
        proven[is_proven] += 1
    assert wrong == []
    assert min(proven[True], proven[False]) > 10
    assert not box.is_proven(3)


def test_starts_of_the_vectors(box: CBox) -> None:
    for test in fuzz_boxes.vectors("Start"):
        before = fuzz_boxes.states()[test["state"]] | test["set"]
        box.load(load(before), test["tick"])
        assert box.start(test["elapsed"], test["tick"])
        state = box.state()
        entries = state.kept.log.entries[before["log"]["next"] - before["log"]["first"] :]
        assert b"".join(entries).hex() == test["entry"], test["comment"]
        assert described(state, test["tick"]) == after(before, test["changes"], test["tick"]), test["comment"]


def test_a_full_log_survives_a_power_loss_before_the_state_is_stored(box: CBox) -> None:
    """A new entry must not overwrite the oldest one, which the box still has."""
    test = next(test for test in fuzz_boxes.vectors("Box") if test["effect"] and _held(test) == 1024)
    before = load(fuzz_boxes.states()[test["state"]] | test["set"])
    log = before.kept.log
    before.kept.log = replace(log, entries=tuple(f"entry {log.first + place}".encode() for place in range(1024)))
    box.load(before, test["tick"])
    kept = bytes(box.test.box.kept)
    assert box.receive(test["link"], bytes.fromhex(test["message"]), test["tick"], bytes(16)).effect
    assert box.test.box.kept.first == log.first + 1
    ctypes.memmove(ctypes.byref(box.test.box.kept), kept, len(kept))
    assert box.start(None, 0)
    assert box.state().kept.log == before.kept.log


def _held(test: dict[str, Any]) -> int:
    log = (fuzz_boxes.states()[test["state"]] | test["set"])["log"]
    return log["next"] - log["first"]


def test_connections_of_the_vectors(box: CBox) -> None:
    for test in fuzz_boxes.vectors("Connect"):
        before = fuzz_boxes.states()[test["state"]] | test["set"]
        box.load(load(before), test["tick"])
        assert box.connect(test["tick"]) == test["link"], test["comment"]
        assert described(box.state(), test["tick"]) == after(before, test["changes"], test["tick"]), test["comment"]


def test_reset_makes_a_box_without_authority(box: CBox) -> None:
    key = load(fuzz_boxes.states()["fresh"]).kept.key
    box.reset(key.x + key.y, bytes(range(32)), 5)
    state = box.state()
    assert (state.kept.key, state.kept.secret, state.kept.boot) == (key, bytes(range(32)), 1)
    assert state.kept.authority is None
    assert state.kept.log.next == 1
    assert (state.running.booted, state.running.bucket) == (-5, TokenBucket(16, 5))
    assert [box.connect(5) for _ in range(4)] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("boot", 0), ("phone_count", 65), ("issuing_count", 3), ("issuing_count", 0), ("service_count", 3),
        ("service_count", 0), ("first", 0), ("first", 200), ("next", 2000), ("floor", 1 << 53), ("ahead", 604_801),
    ],
)  # fmt: skip
def test_damaged_state_refuses_each_message_until_a_reset(box: CBox, member: str, value: int) -> None:
    box.load(load(fuzz_boxes.states()["working"]), 7)
    setattr(box.test.box.kept, member, value)
    assert not box.start(None, 7)
    refuses_everything_until_a_reset(box)


def test_memory_that_cannot_be_read_refuses_each_message_until_a_reset(box: CBox) -> None:
    box.load(load(fuzz_boxes.states()["working"]), 7)
    box.start_damaged(7)
    refuses_everything_until_a_reset(box)


def refuses_everything_until_a_reset(box: CBox) -> None:
    assert box.connect(7) == 0
    for said in (hello(), Fetch(1), Enrol(bytes(16)), Open(b"", b""), Provision(b"", b"", b"")):
        outcome = box.receive(0, write(said), 7, bytes(16))
        assert (outcome.reply, outcome.effect, outcome.persist) == (REFUSED, LockAction.NONE, False), said
    assert not box.write_down(8)
    key = load(fuzz_boxes.states()["fresh"]).kept.key
    box.reset(key.x + key.y, bytes(32), 9)
    assert box.connect(9) == 0
    assert box.receive(0, write(hello()), 9, bytes(16)).reply != REFUSED
    assert box.write_down(10)


def test_a_free_link_answers_nothing(box: CBox) -> None:
    """Neither before a connection nor after it."""
    box.load(load(fuzz_boxes.states()["fresh"]), 7)
    for link in range(3):
        box.disconnect(link)
    assert box.receive(0, write(hello()), 7, bytes(16)).reply == REFUSED
    assert box.connect(7) == 0
    assert box.receive(0, write(hello()), 7, bytes(16)).reply != REFUSED
    box.disconnect(0)
    assert box.receive(0, write(hello()), 7, bytes(16)).reply == REFUSED
    assert box.receive(3, write(hello()), 7, bytes(16)).reply == REFUSED


def test_a_hello_leaves_no_secret_on_the_stack(box: CBox) -> None:
    state, random = load(fuzz_boxes.states()["working"]), bytes(range(100, 116))
    state.kept.secret = bytes(range(200, 232))
    box.load(state, 7)
    ctypes.memmove(box.test.random, random, len(random))
    box.stack(0, write(hello()), 7)
    pads = [bytes(each ^ pad for each in state.kept.secret) for pad in (0, 0x36, 0x5C)]
    parts = {part[start : start + 8] for part in (*pads, random) for start in range(len(part) - 7)}
    assert [part.hex() for part in parts if part in box.stack_bytes] == []


def test_the_port_knows_points_of_the_curve(box: CBox) -> None:
    key = load(fuzz_boxes.states()["fresh"]).kept.key
    x, y = (int.from_bytes(each, "big") for each in (key.x, key.y))
    small_x, small_y = 5, pow(5**3 - 3 * 5 + CURVE_B, (MODULUS + 1) // 4, MODULUS)  # so x + p has 32 bytes, too
    points = {
        (x, y): True, (x, MODULUS - y): True, (small_x, small_y): True, (x, y ^ 1): False, (y, x): False, (0, 0): False,
        (x, 0): False, (small_x + MODULUS, small_y): False, (1, MODULUS): False,
    }  # fmt: skip
    for (x, y), is_point in points.items():
        assert box.is_point(x.to_bytes(32, "big") + y.to_bytes(32, "big")) is is_point, (x, y)


def test_the_port_verifies_scalars_from_1_to_below_the_order(box: CBox) -> None:
    """BearSSL alone accepts r = 0 if the digest is 0 modulo the order."""
    key = load(fuzz_boxes.states()["fresh"]).kept.key
    digest = hashlib.sha256(b"an entry").digest()
    r, s = decode_dss_signature(
        ec.derive_private_key(int.from_bytes(fuzz_boxes.own_key(), "big"), ec.SECP256R1()).sign(
            digest, ec.ECDSA(Prehashed(hashes.SHA256()))
        )
    )
    signatures = {
        (digest, r, s): True, (digest, r, ORDER - s): True, (digest, r, s ^ 1): False, (digest, 0, s): False,
        (digest, r, 0): False, (digest, r, ORDER): False, (digest, ORDER, s): False, (bytes(32), 0, 1): False,
        (ORDER.to_bytes(32, "big"), 0, 1): False,
    }  # fmt: skip
    for (named, r, s), is_valid in signatures.items():
        given = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        assert box.verify(key.x + key.y, named, given) is is_valid, (named.hex(), r, s)


def test_both_boxes_treat_mutants_of_the_vectors_alike(library: ctypes.CDLL) -> None:
    codes = Counter(fuzz_boxes.run(library, MUTANTS, SEED))
    assert sum(codes.values()) == MUTANTS
    assert len(codes) > 20, codes  # all parts of a box are reached
    assert codes[BoxRefusalCode.GOOD] > MUTANTS // 100


def test_both_boxes_behave_alike_in_long_conversations(library: ctypes.CDLL) -> None:
    """Also with a log that is nearly full, and with a new phone that replaces another one."""
    codes = Counter[BoxRefusalCode]()
    for seed, (entries, phones) in enumerate(((0, 0), (0, 63), (760, 64), (1020, 0))):
        codes.update(box_conversations.run(library, STEPS, seed, entries, phones))
    assert codes[BoxRefusalCode.GOOD] > STEPS
    assert set(codes) > REACHED, codes


def test_the_box_unpacks_what_zlib_unpacks(library: ctypes.CDLL) -> None:
    random, taken = Random(SEED), 0
    out = ctypes.create_string_buffer(status_list_bits.BYTES)
    for _ in range(STREAMS):
        stream = streams(random)
        try:
            bits = status_list_bits.unpack(stream)
        except status_list_bits.NotAList:
            bits = None
        good = library.kr_test_inflate(
            stream, ctypes.c_size_t(len(stream)), out, ctypes.c_size_t(status_list_bits.BYTES)
        )
        assert bool(good) == (bits is not None), stream.hex()
        assert bits in (None, out.raw), stream.hex()
        taken += bits is not None
    assert STREAMS // 20 < taken < STREAMS


def streams(random: Random) -> bytes:
    """A zlib stream of a list, packed in some way, mostly with some flipped bits."""
    size = random.choice((256, 256, 256, 256, 255, 257, 0))
    ones = random.choice((0, 0.01, 0.1, 0.5))
    listed = bytes(
        random.choice((0, 1, 16, 255, random.randrange(256))) if random.random() < ones else 0 for _ in range(size)
    )
    strategy = random.choice((zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY, zlib.Z_FILTERED))
    packing = zlib.compressobj(random.choice((0, 1, 6, 9)), zlib.DEFLATED, random.choice((9, 15, 15, 15)), 9, strategy)
    middle = random.choice((0, 0, 100))
    stream = bytearray(packing.compress(listed[:middle]))
    if middle:
        stream += packing.flush(random.choice((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH)))
    stream += packing.compress(listed[middle:]) + packing.flush()
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        stream[random.randrange(min(len(stream), random.choice((4, 40, 400))))] ^= 1 << random.randrange(8)
    return bytes(stream + b"\0" * random.choice((0, 0, 0, 0, 0, 1)))


def objects() -> list[str]:
    return [str(BOX.build / f"{source.stem}.o") for source in sorted((BOX.path / "src").glob("*.c"))]


def test_the_code_of_the_box_is_small() -> None:
    assert c_sources.code_size(objects()) < CODE_MOST


def test_the_box_allocates_nothing_and_prints_nothing() -> None:
    assert c_sources.foreign_names(objects()) == set()


def test_the_memory_of_the_box_is_small(library: ctypes.CDLL) -> None:
    """The structs with a message and its reply, and the deepest stack."""
    deepest = {}
    for stubbed in (True, False):
        box = CBox(library, fuzz_boxes.own_key(), stubbed=stubbed)
        for seed in fuzz_boxes.seeds():
            box.load(seed.state, seed.tick)
            depth = box.stack(seed.link, seed.message, seed.tick)
            deepest[stubbed] = max(depth, deepest.get(stubbed, 0))
    state: int = library.kr_test_box_size()
    transports: int = library.kr_test_transports_size()
    assert 1_000 < deepest[True] < deepest[False]
    assert transports > 2 * LONGEST
    assert state + transports + deepest[False] < RAM_MOST


def test_the_transports_need_less_stack_than_the_box() -> None:
    """All their functions together, so whichever calls which."""
    names = ("advertisements", "bluetooth", "fragments", "hmac", "message_buffer", "names", "nfc", "wire")
    usage = "".join((BOX.build / f"{name}.su").read_text() for name in names)
    frames = [int(line.split("\t")[1]) for line in usage.splitlines()]
    assert len(frames) > 30
    assert sum(frames) < STACK_MOST


def test_the_example_of_the_readme_compiles(tmp_path: Path) -> None:
    include = [BOX.path / name for name in ("include", "ports")]
    c_sources.check_example((BOX.path / "README.md").read_text(), include, tmp_path / "example.c")


def test_each_file_of_the_box_is_short() -> None:
    sources = list(BOX.path.rglob("*.[ch]"))
    assert len(sources) > 20
    assert [path.name for path in sources if len(path.read_text().splitlines()) > 300] == []


def test_the_benchmark_of_the_box_runs() -> None:
    """Its output is for benchmarks/results.md."""
    program = BOX.build / "bench"
    BOX.make(BOX.build, str(program))
    said = subprocess.run([program, "5"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"new key +[\d.]+ ms.*\n.*known key +[\d.]+ ms", said)
