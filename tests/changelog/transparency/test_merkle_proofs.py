"""Merkle proofs: each verifies its own statement, and no other."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.changelog.transparency.merkle_proofs import consistency, inclusion, verify_consistency, verify_inclusion
from keyrack.changelog.transparency.merkle_tree import EMPTY, Tree, leaf_hash
from tests.changelog.transparency.test_merkle_tree import LEAVES, ROOTS

MANY = [leaf_hash(number.to_bytes(2, "big")) for number in range(300)]
OTHER = hashlib.sha256(b"another").digest()

# The proofs of Certificate Transparency's own implementations for `LEAVES`, by the beginnings of their hashes
INCLUSION = {
    (0, 1): [], (0, 8): ["96a296d2", "5f083f0a", "6b47aaf2"], (5, 8): ["bc1a0643", "ca854ea1", "d37ee418"],
    (2, 3): ["fac54203"], (1, 5): ["6e340b9c", "5f083f0a", "bc1a0643"],
}  # fmt: skip
CONSISTENCY = {
    (1, 1): [], (1, 8): ["96a296d2", "5f083f0a", "6b47aaf2"], (6, 8): ["0ebc5d34", "ca854ea1", "d37ee418"],
    (2, 5): ["5f083f0a", "bc1a0643"], (6, 7): ["0ebc5d34", "b08693ec", "d37ee418"],
}  # fmt: skip


@pytest.mark.parametrize("case", INCLUSION)
def test_inclusion_is_proven_as_by_others(case: tuple[int, int]) -> None:
    index, size = case
    leaves = [leaf_hash(leaf) for leaf in LEAVES[:size]]
    proof = inclusion(leaves, index)
    assert [one.hex()[:8] for one in proof] == INCLUSION[case]
    assert verify_inclusion(bytes.fromhex(ROOTS[size]), size, leaves[index], index, proof)


@pytest.mark.parametrize("case", CONSISTENCY)
def test_consistency_is_proven_as_by_others(case: tuple[int, int]) -> None:
    first, size = case
    proof = consistency([leaf_hash(leaf) for leaf in LEAVES[:size]], first)
    assert [one.hex()[:8] for one in proof] == CONSISTENCY[case]
    assert verify_consistency(bytes.fromhex(ROOTS[size]), size, bytes.fromhex(ROOTS[first]), first, proof)


@given(size=st.integers(1, 300), data=st.data())
def test_a_leaf_is_proven_and_no_other(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    leaves, root = MANY[:size], Tree.of(MANY[:size]).root
    proof = inclusion(leaves, index)
    assert len(proof) <= (size - 1).bit_length()
    assert verify_inclusion(root, size, leaves[index], index, proof)
    elsewhere = data.draw(st.integers(-1, 301).filter(lambda place: place != index))
    assert not verify_inclusion(root, size, leaves[index], elsewhere, proof)
    assert not verify_inclusion(root, size, OTHER, index, proof)
    assert not verify_inclusion(OTHER, size, leaves[index], index, proof)
    of_another = data.draw(st.integers(1, 300).filter(lambda other: other != size))
    assert not verify_inclusion(Tree.of(MANY[:of_another]).root, of_another, leaves[index], index, proof)
    for wrong in spoilt(proof, data):
        assert not verify_inclusion(root, size, leaves[index], index, wrong)


@given(size=st.integers(1, 300), data=st.data())
def test_a_beginning_is_proven_and_no_other(size: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, size))
    root, first_root = Tree.of(MANY[:size]).root, Tree.of(MANY[:first]).root
    proof = consistency(MANY[:size], first)
    assert verify_consistency(root, size, first_root, first, proof)
    assert not verify_consistency(root, size, OTHER, first, proof)
    if first:
        assert not verify_consistency(OTHER, size, first_root, first, proof)
    for wrong in spoilt(proof, data):
        assert not verify_consistency(root, size, first_root, first, wrong)


@given(size=st.integers(2, 300), data=st.data())
def test_a_history_that_was_altered_is_no_beginning(size: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, size - 1))
    altered = list(MANY[:size])
    altered[data.draw(st.integers(0, first - 1))] = OTHER
    was, now = Tree.of(MANY[:first]).root, Tree.of(altered).root
    assert not verify_consistency(now, size, was, first, consistency(altered, first))
    assert not verify_consistency(now, size, was, first, consistency(MANY[:size], first))


def test_every_log_begins_with_the_empty_one() -> None:
    root = Tree.of(MANY).root
    assert verify_consistency(root, 300, EMPTY, 0, consistency(MANY, 0))
    assert not verify_consistency(root, 300, OTHER, 0, [])
    assert not verify_consistency(root, 300, EMPTY, 0, [OTHER])


def test_a_log_does_not_shrink() -> None:
    root, longer = Tree.of(MANY[:4]).root, Tree.of(MANY[:5]).root
    assert not verify_consistency(root, 4, longer, 5, consistency(MANY[:5], 4))
    assert not verify_consistency(root, 4, longer, -1, [])


def test_missing_leaves_cannot_be_proven() -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError, match="there is no leaf"):
            inclusion(MANY[:3], index)
    for first in (-1, 4):
        with pytest.raises(IndexError, match="has no first"):
            consistency(MANY[:3], first)


def spoilt(proof: list[bytes], data: st.DataObject) -> list[list[bytes]]:
    """The proof with an extra, a missing, another, and two swapped hashes."""
    longer = [[*proof, OTHER], [OTHER, *proof]]
    if not proof:
        return longer
    place = data.draw(st.integers(0, len(proof) - 1))
    found = [*longer, proof[:-1], proof[1:], [*proof[:place], OTHER, *proof[place + 1 :]]]
    return [*found, proof[::-1]] if len(proof) > 1 else found
