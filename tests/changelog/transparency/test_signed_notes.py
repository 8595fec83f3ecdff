"""Signed notes and checkpoints: C2SP's examples and ours verify, altered ones do not."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.changelog.transparency.merkle_tree import EMPTY
from keyrack.changelog.transparency.signed_notes import (
    COSIGNATURE,
    ED25519,
    SIGNATURES,
    Checkpoint,
    NotAKey,
    NotANote,
    Note,
    NoteNotVerified,
    NoteSigner,
    VerificationKey,
    signed,
)

# The example of C2SP's signed-note
THEIR_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
THEIR_NOTE = (
    "This is an example message.\n\n— example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
# The example of C2SP's tlog-cosignature, whose keys are not published
THEIR_CHECKPOINT = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 "
    "jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)

NOW = 1_795_442_706
LOG = NoteSigner.make("keyrack.example.com/customers/3", seed=b"l" * 32)
TIME = NoteSigner.make("keyrack.example.com/time", COSIGNATURE, seed=b"t" * 32)
STRANGER = NoteSigner.make("stranger.example.com", seed=b"s" * 32)
CHECKPOINT = Checkpoint(LOG.key.name, 17, bytes(range(32)))
TEXT = str(CHECKPOINT)
NOTE = signed(TEXT, LOG, TIME, at=NOW)
KEYS = [LOG.key, TIME.key]
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n")).map(lambda text: text + "\n")


def test_the_note_of_others_verifies() -> None:
    key = VerificationKey.read(THEIR_KEY)
    assert (key.kind, str(key)) == (ED25519, THEIR_KEY)
    note = Note.read(THEIR_NOTE.encode())
    assert note.verify([key]) == {key: None}
    assert (note.text, bytes(note)) == ("This is an example message.\n", THEIR_NOTE.encode())


def test_the_checkpoint_of_others_is_read() -> None:
    note = Note.read(THEIR_CHECKPOINT.encode())
    checkpoint = Checkpoint.read(note.text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert (str(checkpoint), bytes(note)) == (note.text, THEIR_CHECKPOINT.encode())
    assert [one.name for one in note.signatures] == ["example.com/behind-the-sofa", "witness.example.com/w1"]
    assert int.from_bytes(note.signatures[1].value[:8], "big") == 1679315147  # the time in the specification


@given(text=TEXTS, seed=st.binary(min_size=32, max_size=32))
def test_a_signed_text_verifies(text: str, seed: bytes) -> None:
    signer = NoteSigner.make("somebody", seed=seed)
    note = Note.read(bytes(signed(text, signer, at=NOW)))
    assert (note.text, note.verify([signer.key])) == (text, {signer.key: None})


@given(place=st.integers(0, len(bytes(NOTE)) - 1), bit=st.integers(0, 7))
def test_a_note_that_was_changed_does_not_verify(place: int, bit: int) -> None:
    """For each bit: the note is rejected, or one of its two signatures counts as an unknown one."""
    changed = bytearray(bytes(NOTE))
    changed[place] ^= 1 << bit
    try:
        note = Note.read(bytes(changed))
        believed = note.verify(KEYS)
    except (NotANote, NoteNotVerified):
        return
    assert len(believed) == 1
    assert note.text == TEXT


def test_a_cosignature_includes_its_time() -> None:
    assert NOTE.verify(KEYS) == {LOG.key: None, TIME.key: NOW}
    raw = NOTE.signatures[1]
    later = replace(raw, value=(NOW + 1).to_bytes(8, "big") + raw.value[8:])
    with pytest.raises(NoteNotVerified, match=r"the signature of keyrack\.example\.com/time is invalid"):
        replace(NOTE, signatures=(NOTE.signatures[0], later)).verify(KEYS)


def test_a_cosignature_is_of_checkpoints_alone() -> None:
    with pytest.raises(NotANote, match="a checkpoint has lines"):
        signed("Anything else.\n", TIME, at=NOW)
    over = b"cosignature/v1\ntime 5\nAnything else.\n"
    value = (5).to_bytes(8, "big") + TIME.private.sign(over)
    forged = Note("Anything else.\n", (replace(NOTE.signatures[1], value=value),))
    with pytest.raises(NoteNotVerified, match="is invalid"):
        forged.verify(KEYS)


def test_an_out_of_range_time_is_rejected() -> None:
    at = (1 << 63).to_bytes(8, "big")
    value = at + TIME.private.sign(f"cosignature/v1\ntime {1 << 63}\n{TEXT}".encode())
    with pytest.raises(NoteNotVerified, match="has no valid time"):
        Note(TEXT, (replace(NOTE.signatures[1], value=value),)).verify(KEYS)


def test_unknown_signatures_are_ignored() -> None:
    """Also those that share only a name or only an id with a known key, and those of unknown kinds."""
    own, _ = NOTE.signatures
    others = (
        STRANGER.sign(TEXT, NOW),
        replace(own, name=STRANGER.key.name),
        replace(own, id=b"none"),
        replace(own, name="quantum.example.com", value=b"q" * 2428),
    )
    note = Note.read(bytes(Note(TEXT, (*others, own))))
    assert note.verify(KEYS) == {LOG.key: None}
    with pytest.raises(NoteNotVerified, match="no known key has signed the note"):
        replace(note, signatures=others).verify(KEYS)
    with pytest.raises(NoteNotVerified, match="no known key has signed the note"):
        note.verify([])


def test_one_wrong_signature_of_a_known_key_spoils_the_note() -> None:
    wrong = replace(LOG.sign(TEXT, NOW), value=b"x" * 64)
    for signatures in ((wrong, *NOTE.signatures), (*NOTE.signatures, wrong)):
        with pytest.raises(NoteNotVerified, match="is invalid"):
            Note(TEXT, signatures).verify(KEYS)
    short = replace(wrong, value=b"x")
    with pytest.raises(NoteNotVerified, match="is invalid"):
        Note(TEXT, (short,)).verify(KEYS)


def test_a_note_has_sixteen_signatures_and_no_more() -> None:
    signers = [NoteSigner.make(f"signer.example.com/{number}", seed=bytes([number]) * 32) for number in range(17)]
    most = Note.read(bytes(signed(TEXT, *signers[:SIGNATURES], at=NOW)))
    assert len(most.verify([signer.key for signer in signers])) == 16
    with pytest.raises(NotANote, match="at most 16 signatures"):
        signed(TEXT, *signers, at=NOW)


LINE = str(NOTE.signatures[0])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "a note is a text"), (b"text\n", "a note is a text"), (b"text\n\n", "a note is a text"),
        (f"text\n{LINE}".encode(), "a note is a text"), (f"text\n\n{LINE}".encode()[:-1], "a note is a text"),
        (f"te\txt\n\n{LINE}".encode(), "a note is a text"), (f"text\r\n\n{LINE}".encode(), "a note is a text"),
        (f"te\0xt\n\n{LINE}".encode(), "a note is a text"), (b"te\xffxt\n\n" + LINE.encode(), "UTF-8"),
        (f"text\n\n-{LINE[1:]}".encode(), "em dash"), (f"text\n\n{LINE[:-1]} \n".encode(), "em dash"),
        (f"text\n\n{LINE.replace(' k', '  k')}".encode(), "em dash"), (b"text\n\n\xe2\x80\x94 name\n", "em dash"),
        ("text\n\n— na+me AAAAAAAA\n".encode(), "em dash"), ("text\n\n— na\xa0me AAAAAAAA\n".encode(), "em dash"),
        ("text\n\n— name AAAA*AAA\n".encode(), "base64"), ("text\n\n— name AAAAAAA\n".encode(), "base64"),
        ("text\n\n— name AAAAAB==\n".encode(), "base64"), ("text\n\n— name AAAAAA==\n".encode(), "four bytes"),
        (b"x" * 200_000, "at most 131072 bytes"),
    ],
)  # fmt: skip
def test_invalid_notes_are_rejected(data: bytes, said: str) -> None:
    with pytest.raises(NotANote, match=said):
        Note.read(data)


@pytest.mark.parametrize("text", ["", "no end", "two\n\nno end", "\x07\n", f"x\n\n{LINE}y"])
def test_invalid_texts_are_rejected(text: str) -> None:
    with pytest.raises(NotANote, match=r"note|em dash"):
        signed(text, LOG, at=NOW)


# Checkpoints


def test_a_checkpoint_of_an_empty_log() -> None:
    text = "keyrack.example.com/customers/3\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
    assert str(Checkpoint(LOG.key.name, 0, EMPTY)) == text
    assert Checkpoint.read(text) == Checkpoint(LOG.key.name, 0, EMPTY)


def test_extension_lines_of_a_checkpoint_are_signed_and_ignored() -> None:
    note = signed(TEXT + "an extension\n", LOG, TIME, at=NOW)
    assert note.verify(KEYS) == {LOG.key: None, TIME.key: NOW}
    assert Checkpoint.read(note.text) == CHECKPOINT


ROOT = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "o\n1\n", f"o\n1\n{ROOT}", f"\n1\n{ROOT}\n", f"o\n01\n{ROOT}\n", f"o\n-1\n{ROOT}\n",
        f"o\n+1\n{ROOT}\n", f"o\n\u0661\n{ROOT}\n", f"o\n\n{ROOT}\n", f"o\n{10**19}\n{ROOT}\n", f"o\n1\n{ROOT[:-1]}\n",
        f"o\n1\n{ROOT}\n\n", f"o\n1\n{ROOT}\n\nmore\n", "o\n1\nAAAA\n",
    ],
)  # fmt: skip
def test_invalid_checkpoints_are_rejected(text: str) -> None:
    with pytest.raises(NotANote, match=r"checkpoint|base64"):
        Checkpoint.read(text)


# Keys


@pytest.mark.parametrize("signer", [LOG, TIME, STRANGER])
def test_a_key_is_kept_as_text(signer: NoteSigner) -> None:
    assert VerificationKey.read(str(signer.key)) == signer.key
    again = NoteSigner.read(signer.secret)
    assert (again.key, again.sign(TEXT, NOW)) == (signer.key, signer.sign(TEXT, NOW))
    assert base64.b64encode(signer.private.private_bytes_raw()).decode()[:40] not in repr(signer)


def test_a_new_key_is_new() -> None:
    assert NoteSigner.make("somebody").key.public != NoteSigner.make("somebody").key.public


def test_the_same_bytes_of_another_kind_are_another_key() -> None:
    other = replace(LOG.key, kind=COSIGNATURE)
    assert other.id != LOG.key.id
    with pytest.raises(NoteNotVerified, match="no known key has signed the note"):
        NOTE.verify([other])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a key is name"), ("example.com/foo", "a key is name"), (THEIR_KEY[:-1], "a key is name"),
        (THEIR_KEY.replace("530d903a", "530d903b"), "it would be 530d903a"),
        (THEIR_KEY.replace("530d903a", "530D903A"), "it would be 530d903a"),
        (THEIR_KEY.replace(".com", ".org"), "is of another key or name than example.org/foo"),
        (THEIR_KEY.replace("/foo", " foo"), "without spaces"), (THEIR_KEY[15:], "without spaces"),
        ("x+00000000+" + base64.b64encode(b"\x02" + bytes(32)).decode(), "kind 1"),
    ],
)  # fmt: skip
def test_invalid_keys_are_rejected(text: str, said: str) -> None:
    with pytest.raises(NotAKey, match=said):
        VerificationKey.read(text)


def test_invalid_signing_keys_are_rejected_and_not_quoted() -> None:
    secret = LOG.secret.rsplit("+", 1)[1]
    for wrong in (str(LOG.key), LOG.secret[:-4], LOG.secret.replace("customers", "others"), LOG.secret.lower()):
        with pytest.raises(NotAKey) as refused:
            NoteSigner.read(wrong)
        assert secret[:12] not in str(refused.value)
    for name in ("", "two words", "a+b", "line\nline"):
        with pytest.raises(NotAKey, match="a key's name"):
            NoteSigner.make(name)
