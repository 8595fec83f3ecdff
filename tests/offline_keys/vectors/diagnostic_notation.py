"""Messages in diagnostic notation (RFC 8949, section 8), also in byte strings."""

from __future__ import annotations

from keyrack.offline_keys.cbor import TaggedItem, Value, decode


def shown(message: bytes) -> str:
    """A message on the link."""
    return _item(decode(message), _signed)


def _signed(data: bytes) -> str:
    if data[:1] != b"\xd2":
        return _bytes(data)
    tagged = decode(data, tagged=True)
    assert isinstance(tagged, TaggedItem) and isinstance(tagged.value, list)
    protected, _, payload, signature = tagged.value
    assert isinstance(protected, bytes) and isinstance(payload, bytes) and isinstance(signature, bytes)
    inner = [f"<< {_item(decode(each))} >>" for each in (protected, payload)]
    return f"<< 18([{inner[0]}, {{}}, {inner[1]}, {_bytes(signature)}]) >>"


def _bytes(data: bytes) -> str:
    return f"h'{data.hex()}'"


def _item(value: Value, octets=_bytes) -> str:
    if isinstance(value, bytes):
        return octets(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_item(each, octets) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_item(key)}: {_item(each, octets)}' for key, each in value.items())}}}"
    return str(value)
