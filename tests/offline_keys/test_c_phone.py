"""The phone in C: vectors, and comparison with Python."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from keyrack.offline_keys import cose, link_messages, phone_state
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import CarryMessage, Open
from keyrack.offline_keys.message_fields import ENTRY, OPEN
from keyrack.offline_keys.phone_conversation import ConversationEnd, Ending, PhoneAction
from keyrack.offline_keys.phone_state import AnsweredBox, KeysAnswer, PhoneState
from keyrack.offline_keys.public_key import ORDER
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import c_box, c_phone, c_sources, phone_comparison
from tests.offline_keys.authority import Authority, Box
from tests.offline_keys.c_phone import CPhone
from tests.offline_keys.c_sources import BOX, PHONE
from tests.offline_keys.c_transports import CBluetooth, CBuffer, CReassembly, split_by_phone
from tests.offline_keys.fixed_keys import public, scalar, signer
from tests.offline_keys.vectors import phone_vectors
from tests.offline_keys.vectors.phone_state_json import differences, load_answer
from tests.offline_keys.vectors.phone_visits import held, phone_of

Json = dict[str, Any]
FILE = json.loads(phone_vectors.PATH.read_text())
CODE_MOST = 32 * 1024  # with the codec, without the crypto library
CONVERSATION_MOST = 3 * 1024
STRUCTS = (
    "phone_state", "conversation", "held_root", "held_key", "held_box", "held_list", "held_receipt", "held_entry",
)  # fmt: skip
SEED = 20261128
TWINS = 400
SANITIZED = 150


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return c_phone.library()


@pytest.fixture
def c(library: ctypes.CDLL) -> Iterator[CPhone]:
    with CPhone(library, scalar("phone-1"), public("phone-1")) as phone:
        yield phone


def vectors(kind: str) -> Any:
    (tests,) = (group["tests"] for group in FILE["testGroups"] if group["type"] == kind)
    return pytest.mark.parametrize("test", tests, ids=lambda test: f"{test['tcId']} {test['comment']}")


def put(c: CPhone, test: Json) -> PhoneState:
    state = phone_vectors.state_of(test, FILE["states"])
    c.load(state, phone_comparison.answer_of(state))
    return state


def refused(code: int, call: Any, *arguments: Any) -> None:
    """The call is rejected with this code; 0 for success."""
    if code:
        with pytest.raises(MessageRefused) as rejection:
            call(*arguments)
        assert rejection.value.code == code
    else:
        call(*arguments)


@vectors("Answer")
def test_answers_of_the_server(c: CPhone, test: Json) -> None:
    before = put(c, test)
    refused(test["code"], c.take_keys, load_answer(test["answer"]), test["now"])
    assert differences(before, c.state()) == test["changes"]


@vectors("Home")
def test_uploads(c: CPhone, test: Json) -> None:
    before = put(c, test)
    entries, receipts = ([bytes.fromhex(each) for each in test[name]] for name in ("entries", "receipts"))
    refused(test["code"], c.bring_home, entries, receipts)
    assert differences(before, c.state()) == test["changes"]


@vectors("Bring")
def test_what_a_phone_brings(c: CPhone, test: Json) -> None:
    put(c, test)
    authority, artefacts, is_right = c.brings(bytes.fromhex(test["challenge"]), test["now"])
    assert [each.hex() for each in authority] == test["authority"]
    assert [each.hex() for each in artefacts] == test["artefacts"]
    assert is_right is test["isClockRight"]


@vectors("Choice")
def test_which_key_a_phone_uses(c: CPhone, test: Json) -> None:
    put(c, test)
    keys = c.keys(test["box"], test["now"])
    assert [(key.hex(), overdue) for key, overdue in keys] == list(zip(test["keys"], test["overdue"], strict=True))


@vectors("Counter")
def test_counters(c: CPhone, test: Json) -> None:
    put(c, test)
    assert c.next_counter(test["now"]) == test["counter"] == c.state().counter


@vectors("Missing")
def test_what_a_phone_fetches_first(c: CPhone, test: Json) -> None:
    put(c, test)
    assert c.first_missing(test["box"], test["first"]) == test["number"]


@vectors("Registration")
def test_registrations(c: CPhone, test: Json) -> None:
    assert c.registration(test["subject"].encode(), bytes.fromhex(test["nonce"])).hex() == test["message"]


@vectors("Action")
def test_actions(library: ctypes.CDLL, test: Json) -> None:
    action = library.kr_phone_test_action(ctypes.c_uint64(test["code"]))
    assert PhoneAction(action).name.lower() == test["action"]


@vectors("Conversation")
def test_conversations(c: CPhone, test: Json) -> None:
    before = put(c, test)
    for call in test["calls"]:
        if call["call"] == "fetch":
            following = c.call(c_phone.FETCH, b"")
        else:
            command = c_phone.command_of(call["call"])
            following = c.begin(command, has_network=test["hasNetwork"], product=test["product"])
        for step in call["steps"]:
            if "askTime" in step:
                assert following is None
                following = c.call(c_phone.TIME, bytes.fromhex(step["time"]), step["now"])
                continue
            assert isinstance(following, bytes)
            assert following.hex() == step["send"]
            if "lost" in step:
                following = c.call(c_phone.LOSE, b"\1" if step["lost"] else b"")
            else:
                following = c.call(c_phone.RECEIVE, bytes.fromhex(step["reply"]), step["now"])
        assert isinstance(following, Ending)
        end = following.end.name.lower().replace("_", "-")
        assert {"end": end, "code": following.code, "action": following.action.name.lower()} == call["ending"]
    assert differences(before, c.state()) == test["changes"]


def test_both_phones_behave_alike(library: ctypes.CDLL) -> None:
    """Random states, answers of the server, boxes and replies."""
    ends = Counter(phone_comparison.run(library, TWINS, SEED))
    assert sum(ends.values()) >= TWINS
    assert set(ends) == set(ConversationEnd), ends


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """The same with a phone in C built with sanitizers."""
    make = c_sources.compiler(), "-print-file-name=libasan.so"
    preload = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(preload).is_absolute():
        pytest.skip("the C compiler has no sanitizer")
    flags = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    PHONE.make(tmp_path, str(tmp_path / "libkeyrack_phone_test.so"), flags=flags)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.offline_keys.phone_comparison", str(tmp_path), str(SANITIZED), str(SEED)],
        env=os.environ | {"LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout.strip() == "alike"


# Bounds


def test_the_counter_is_saved_before_an_open_is_sent(c: CPhone) -> None:
    box = Box()
    put_working(c, box)
    reply = box.hear(_bytes(c.begin(OPEN, has_network=False))).reply
    assert not c.saves
    now = box.authority.now * 1000
    sent = link_messages.read(_bytes(c.call(c_phone.RECEIVE, reply, now)), Open)
    assert c.saves
    assert c.state().counter == now
    assert c.call(c_phone.RECEIVE, box.say(sent).reply, now) == Ending(ConversationEnd.DONE)
    assert c.saves
    assert len(c.state().entries) == 1


@pytest.mark.parametrize("size", [20, 182, 244])
def test_an_opening_travels_in_fragments(c: CPhone, library: ctypes.CDLL, size: int) -> None:
    """Phone and Bluetooth side of the box are those in C.

    A phone has the functions for fragments, too.
    """
    box, built = Box(), c_box.library()
    radio, phone = CBluetooth(built, CBuffer(built)), CReassembly(library)
    put_working(c, box)
    radio.connect(0, 0)

    def carry(message: bytes) -> bytes:
        *_, whole = [radio.write(0, fragment, 0) for fragment in split_by_phone(library, message, size)]
        assert whole == message
        radio.reply(0, box.hear(whole).reply, 0, is_proven=False)
        *_, (error, reply) = [phone.accept(each, 0) for each in iter(lambda: radio.next_fragment(0, size, 0), None)]
        assert error == 0 and reply is not None
        return reply[1]

    now = box.authority.now * 1000
    said = c.call(c_phone.RECEIVE, carry(_bytes(c.begin(OPEN, has_network=False))), now)
    assert c.call(c_phone.RECEIVE, carry(_bytes(said)), now) == Ending(ConversationEnd.DONE)


def _bytes(following: object) -> bytes:
    assert isinstance(following, bytes)
    return following


def put_working(c: CPhone, box: Box) -> PhoneState:
    state = phone_of(box.authority)
    c.load(state, phone_comparison.answer_of(state))
    return state


def test_a_key_store_that_does_not_sign_ends_the_conversation(library: ctypes.CDLL) -> None:
    with CPhone(library, scalar("phone-1"), public("phone-1"), signs=c_phone.SIGNS_NOTHING) as c:
        box = Box()
        put_working(c, box)
        reply = box.hear(_bytes(c.begin(OPEN, has_network=False))).reply
        assert c.call(c_phone.RECEIVE, reply, 1) == c_phone.UNSIGNED
        assert c.registration(b"somebody", bytes(16)) == b""


def test_a_registration_has_a_valid_subject(c: CPhone) -> None:
    for subject in (b"", b"x" * 129, b"caf\xc3\xa9", b"\n"):
        assert c.registration(subject, bytes(16)) == b""


@pytest.mark.parametrize("short", range(4))
def test_an_answer_without_room_changes_nothing(library: ctypes.CDLL, short: int) -> None:
    authority = Authority()
    roots = (authority.new_root("next-root"), authority.new_root("last-root"))
    boxes = tuple(
        AnsweredBox(name, None, (Authority(name=name).list(),), None) for name in (authority.name, "box:1042:1")
    )
    answer = KeysAnswer(authority.key_set(), roots, tuple(held(authority.key(place)) for place in (1, 2)), boxes)
    rooms = [2, 2, 2, 2, 0, 0]
    with CPhone(library, scalar("phone-1"), public("phone-1"), rooms=rooms) as c:
        c.take_keys(answer, 5)
        assert c.state() == phone_state.take_keys(PhoneState(), answer, public("phone-1"), 5)
    rooms[short] = 1
    with CPhone(library, scalar("phone-1"), public("phone-1"), rooms=rooms) as c:
        refused(BoxRefusalCode.TOO_LONG, c.take_keys, answer, 5)
        assert c.state() == PhoneState()


def test_a_receipt_or_entry_without_room_is_dropped(library: ctypes.CDLL) -> None:
    authority = Authority()
    entry = Box().state.kept.log.entries[0]
    claims = cose.read(entry, ENTRY).claims
    later = cose.sign(ENTRY, public("box").kid, claims | {"number": 2}, signer("box").sign)
    receipts = [Authority(name=name).receipt(number, bytes(32)) for name, number in
                ((authority.name, 1), ("box:1042:1", 1), (authority.name, 2))]  # fmt: skip
    with CPhone(library, scalar("phone-1"), public("phone-1"), rooms=[0, 0, 0, 0, 1, 1]) as c:
        c.bring_home([], receipts)
        assert c.state().receipts == (receipts[2],)
        for each in (entry, entry, later):
            c.keep(each)
        assert c.state().entries == (entry,)
        c.bring_home([entry], [])
        assert c.state().entries == ()


def test_a_box_fills_1100_entries_at_most(library: ctypes.CDLL) -> None:
    """A full log ends the fetch; another box still has room."""
    box = Box()
    claims = cose.read(box.state.kept.log.entries[0], ENTRY).claims

    def entry(number: int, name: str = box.authority.name) -> bytes:
        return cose.sign(ENTRY, bytes(8), claims | {"number": number, "aud": name}, lambda _: bytes(63) + b"\1")

    with CPhone(library, scalar("phone-1"), public("phone-1"), signs=c_phone.STUBBED) as c:
        put_working(c, box)
        for number in range(1, 1_099):
            c.keep(entry(number))
        following = link_messages.write(link_messages.EntriesMessage(5_000, [entry(each) for each in (1_200, 1_201)]))
        reply = box.hear(_bytes(c.begin(OPEN, has_network=False))).reply
        _bytes(c.call(c_phone.RECEIVE, reply, box.authority.now * 1000))
        unsigned = following.replace(bytes(8) + b"\x10", public("box").kid + b"\x10")
        assert unsigned.count(public("box").kid) == 2
        _bytes(c.call(c_phone.FETCH, b""))
        assert c.call(c_phone.RECEIVE, unsigned, 0) == Ending(ConversationEnd.DONE)
        assert len(c.state().entries) == 1_100
        c.keep(entry(1_300))
        c.keep(entry(1, "box:1042:1"))
        assert len(c.state().entries) == 1_101


def test_calls_out_of_order_are_invalid(c: CPhone) -> None:
    box = Box()
    put_working(c, box)
    c.begin(OPEN, has_network=False)
    invalid = Ending(ConversationEnd.INVALID, BoxRefusalCode.STRUCTURE)
    assert c.call(c_phone.TIME, b"", 1) == invalid
    assert c.call(c_phone.RECEIVE, box.hello(), 1) == invalid
    assert c.call(c_phone.RECEIVE, box.hello(), 1) == invalid


def test_a_later_challenge_shows_that_a_command_did_nothing(c: CPhone) -> None:
    box = Box()
    put_working(c, box)
    reply = box.hear(_bytes(c.begin(OPEN, has_network=False))).reply
    sent = _bytes(c.call(c_phone.RECEIVE, reply, box.authority.now * 1000))
    unknown = Ending(ConversationEnd.UNKNOWN, action=PhoneAction.LOOK)
    assert c.call(c_phone.LOSE, b"\1") == unknown
    assert c.has_done_nothing(box.hello())
    box.hello()
    assert not c.has_done_nothing(link_messages.write(box.challenge()._replace(name="box:9:9")))
    fresh = phone_state.keys_for(c.state(), box.authority.name, 0)[0]
    assert not box.open(fresh.message).code
    assert not c.has_done_nothing(box.hello())
    assert sent


def test_signatures_of_key_stores(library: ctypes.CDLL) -> None:
    def converted(der: bytes) -> bytes | None:
        out = ctypes.create_string_buffer(64)
        return out.raw if library.kr_phone_test_der(der, ctypes.c_size_t(len(der)), out) else None

    for r in (1, 127, 128, 255, 256, 1 << 255, (1 << 255) - 1, ORDER - 1):
        for s in (1, 128, ORDER - 1):
            der = encode_dss_signature(r, s)
            assert converted(der) == r.to_bytes(32, "big") + s.to_bytes(32, "big")
            assert [converted(der[:end]) for end in range(len(der))] == [None] * len(der)
            assert converted(der + b"\0") is None
    for wrong in (
        "3006020100020100ff",
        "30060281010201",
        "3008020200010201ff",
        "300602018102017f",
        "3006030101020101",
        "30070202007f020101",
    ):
        assert converted(bytes.fromhex(wrong)) is None, wrong
    long = encode_dss_signature(1 << 256, 1)
    assert converted(long) is None


# Size


def objects() -> list[str]:
    names = [source.stem for source in sorted((PHONE.path / "src").glob("*.c"))]
    codec = [path.stem for path in sorted(PHONE.build.glob("box_*.o"))]
    assert len(codec) >= 5
    return [str(PHONE.build / f"{name}.o") for name in (*names, *codec)]


def test_the_code_of_the_phone_is_small() -> None:
    sizes = subprocess.run(["size", *objects()], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    text, data, bss = (sum(int(line.split()[column]) for line in sizes) for column in range(3))
    assert len(sizes) == len(objects())
    assert text < CODE_MOST
    assert (data, bss) == (0, 0)  # no mutable globals


def test_the_phone_allocates_nothing_and_prints_nothing() -> None:
    names = subprocess.run(["nm", "-u", *objects()], capture_output=True, text=True, check=True).stdout
    foreign = {name for name in re.findall(r" U (\w+)", names) if not name.startswith("kr_")}
    assert foreign <= {"memcpy", "memmove", "memset", "memcmp", "strlen", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}


def test_the_table_of_the_readme_has_the_sizes(library: ctypes.CDLL) -> None:
    readme = (PHONE.path / "README.md").read_text()
    found = re.findall(r"^\| `struct kr_(\w+)` \| ([\d,]+) ", readme, re.MULTILINE)
    table = {name: int(size.replace(",", "")) for name, size in found}
    assert table == dict(zip(STRUCTS, c_phone.sizes(library), strict=True))
    assert table["conversation"] < CONVERSATION_MOST


def test_the_example_of_the_readme_compiles(tmp_path: Path) -> None:
    readme = (PHONE.path / "README.md").read_text()
    c_sources.check_example(readme, [PHONE.path / "include", BOX.path / "include"], tmp_path / "example.c")


def test_each_file_of_the_phone_is_short() -> None:
    sources = [*(PHONE.path / "src").glob("*.[ch]"), *(PHONE.path / "include").glob("*.h")]
    assert len(sources) > 10
    assert [path.name for path in sources if len(path.read_text().splitlines()) > 310] == []


def test_an_artefact_fits_a_message() -> None:
    assert len(link_messages.write(CarryMessage(bytes(768)))) < link_messages.LONGEST
