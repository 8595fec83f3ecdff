"""B9: a secret is sealed for one place, by a key outside the database."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given
from hypothesis import strategies as st

from keyrack.core.settings import Settings
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.cipher import decrypt, encrypt, number_of, unwrapped, wrap
from keyrack.db.encryption.master_keys import MasterKey, MasterKeyError

KEYS = st.binary(min_size=32, max_size=32)
PLACES = st.tuples(st.sampled_from(["webhook.secret", "webhook.signing_secret"]), st.integers(0), st.integers(0))


@given(key=KEYS, number=st.integers(1, 2**31 - 1), secret=st.text(), place=PLACES)
def test_a_sealed_secret_opens_in_its_place(key: bytes, number: int, secret: str, place: tuple[str, int, int]) -> None:
    value = encrypt(key, number, secret, place)
    assert decrypt(key, value, place) == secret
    assert number_of(value) == number
    assert value != encrypt(key, number, secret, place)


@given(key=KEYS, other=KEYS, place=PLACES, elsewhere=PLACES, bit=st.integers(0))
def test_another_key_place_or_value_does_not_open(
    key: bytes, other: bytes, place: tuple[str, int, int], elsewhere: tuple[str, int, int], bit: int
) -> None:
    value = encrypt(key, 1, "a secret", place)
    at = bit % (8 * len(value))
    changed = bytearray(value)
    changed[at // 8] ^= 1 << at % 8
    with pytest.raises(InvalidTag):
        decrypt(key, bytes(changed), place)
    if other != key:
        with pytest.raises(InvalidTag):
            decrypt(other, value, place)
    if elsewhere != place:
        with pytest.raises(InvalidTag):
            decrypt(key, value, elsewhere)


def test_an_unsealed_value_has_no_data_key() -> None:
    for value in (b"", b"\0plain", b"\x01", b"\x01\0\0\0\x01", b"whsec_" + b"A" * 50):
        assert number_of(value) == 0


def test_a_data_key_is_wrapped_for_its_number_and_its_master_key() -> None:
    ours = Settings()
    (key,) = master_keys.read(ours)
    row = {"number": 3, "master": key.id, "wrapped": wrap(b"d" * 32, 3, key)}
    assert unwrapped([row], ours) == {3: b"d" * 32}
    with pytest.raises(MasterKeyError, match="Data key 4 in the database is damaged"):
        unwrapped([row | {"number": 4}], ours)


# Sources of the master key


def of(**given: object) -> Settings:
    return Settings().model_copy(update={"master_key": None, "database_url": None} | given)


def test_concurrent_starts_make_one_key_file(tmp_path: Path) -> None:
    """B9: the file is complete, readable only by its owner, and never replaced."""
    settings, found = of(state=tmp_path / "state"), set[bytes]()
    barrier = threading.Barrier(8)

    def begin() -> None:
        barrier.wait()
        found.update(key.raw for key in master_keys.make(settings))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1
    file = tmp_path / "state/master.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert base64.b64decode(file.read_text()) in found
    assert list(file.parent.iterdir()) == [file]
    assert {key.raw for key in master_keys.make(settings)} == found


def test_a_key_that_the_operator_must_configure_is_not_made(tmp_path: Path) -> None:
    """B9: not for an external database, and not if a key file is configured."""
    for where in ({"database_url": "postgresql://elsewhere/x"}, {"master_key_file": tmp_path / "named"}):
        with pytest.raises(MasterKeyError, match=r"is missing\. Make one with `keyrack master-key new`"):
            master_keys.make(of(state=tmp_path, **where))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "short", base64.b64encode(b"x" * 31).decode(), "é" * 44, "x" * 44 + ",y"])
def test_an_invalid_master_key_is_rejected_and_not_quoted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(MasterKeyError) as refused:
        master_keys.read(of(master_key_file=file))
    assert str(refused.value) == (
        f"{file} is not valid. A master key is 32 bytes in base64, as `keyrack master-key new` makes it. "
        "Separate several keys by commas or lines."
    )
    assert "xxxx" not in str(refused.value)


def test_several_keys_are_separated_by_lines_or_commas(tmp_path: Path) -> None:
    keys = [master_keys.new(), master_keys.new()]
    file = tmp_path / "key"
    for text in ("\n".join(key.text for key in keys) + "\n", ", ".join(key.text for key in keys)):
        file.write_text(text)
        assert master_keys.read(of(master_key_file=file)) == keys


def test_a_key_is_not_shown() -> None:
    key = MasterKey(b"k" * 32)
    shown = f"{key!r} {key} {Settings()!r} {Settings().model_dump()}"
    assert "kkkk" not in shown and key.text not in shown
    assert Settings().master_key is not None and os.environ["KEYRACK_MASTER_KEY"] not in shown
    assert MasterKey(b"k" * 32).id == key.id != MasterKey(b"l" * 32).id
