"""States and answers of the reference phone as JSON."""

from __future__ import annotations

from typing import Any

from keyrack.offline_keys.cbor import decode
from keyrack.offline_keys.phone_state import AnsweredBox, HeldBox, HeldKey, KeysAnswer, PhoneState
from keyrack.offline_keys.public_key import PublicKey

Json = dict[str, Any]


def dump(state: PhoneState) -> Json:
    return {
        "keySet": _hex(state.key_set),
        "roots": _all(state.roots),
        "boxes": [{"box": box.name, "boxKey": box.key and box.key.encoded.hex()} for box in state.boxes],
        "keys": [_dump_key(key) for key in state.keys],
        "lists": _all(state.lists),
        "receipts": _all(state.receipts),
        "entries": _all(state.entries),
        "counter": state.counter,
        "metServer": state.met_server,
    }


def load(state: Json) -> PhoneState:
    return PhoneState(
        key_set=_bytes(state["keySet"]),
        roots=_messages(state["roots"]),
        boxes=tuple(
            HeldBox(box["box"], box["boxKey"] and PublicKey.from_map(decode(bytes.fromhex(box["boxKey"]))))
            for box in state["boxes"]
        ),
        keys=tuple(_load_key(key) for key in state["keys"]),
        lists=_messages(state["lists"]),
        receipts=_messages(state["receipts"]),
        entries=_messages(state["entries"]),
        counter=state["counter"],
        met_server=state["metServer"],
    )


def differences(before: PhoneState, after: PhoneState) -> Json:
    """The members of `after` that `before` does not have."""
    known = dump(before)
    return {name: value for name, value in dump(after).items() if value != known[name]}


def dump_answer(answer: KeysAnswer) -> Json:
    return {
        "keySet": _hex(answer.key_set),
        "roots": _all(answer.roots),
        "keys": [_dump_key(key) for key in answer.keys],
        "boxes": [
            {"box": box.name, "boxKey": _hex(box.key), "statusLists": _all(box.lists), "receipt": _hex(box.receipt)}
            for box in answer.boxes
        ],
    }


def load_answer(answer: Json) -> KeysAnswer:
    return KeysAnswer(
        _bytes(answer["keySet"]),
        _messages(answer["roots"]),
        tuple(_load_key(key) for key in answer["keys"]),
        tuple(
            AnsweredBox(box["box"], _bytes(box["boxKey"]), _messages(box["statusLists"]), _bytes(box["receipt"]))
            for box in answer["boxes"]
        ),
    )


def _dump_key(key: HeldKey) -> Json:
    return {"assignmentId": key.assignment, "renewAfter": key.renew_after, "key": key.message.hex()}


def _load_key(key: Json) -> HeldKey:
    return HeldKey(bytes.fromhex(key["key"]), key["assignmentId"], key["renewAfter"])


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _all(messages: tuple[bytes, ...]) -> list[str]:
    return [each.hex() for each in messages]


def _messages(texts: list[str]) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(each) for each in texts)
