"""Tiles of a Merkle tree: their proofs equal those of the whole tree."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import settings as at_most
from hypothesis import strategies as st

from keyrack.changelog.transparency.merkle_proofs import (
    additions,
    consistency,
    inclusion,
    siblings,
    verify_consistency,
    verify_inclusion,
)
from keyrack.changelog.transparency.merkle_tiles import WIDTH, Growth, NoTile, Place, needed, root, unfinished
from keyrack.changelog.transparency.merkle_tree import HASH, Tree, leaf_hash

MOST = 3 * WIDTH * WIDTH // 2  # leaves: tiles of three levels
LEAVES = [leaf_hash(str(number).encode()) for number in range(3 * WIDTH)]


def grown(leaves: list[bytes], pieces: list[int]) -> dict[Place, bytes]:
    """The tiles of a tree that grows in batches, each time only from the stored tiles."""
    kept, tree, begin = dict[Place, bytes](), Tree(), 0
    for end in [*sorted(pieces), len(leaves)]:
        growth = Growth(Tree.read(tree.stored), {place: bytearray(kept[place]) for place in unfinished(tree.size)})
        for leaf in leaves[begin:end]:
            growth.append(leaf)
        kept |= growth.take_changed()
        tree, begin = growth.tree, end
    return kept


@at_most(max_examples=30)
@given(size=st.integers(1, len(LEAVES)), data=st.data())
def test_proofs_of_tiles_are_those_of_the_leaves(size: int, data: st.DataObject) -> None:
    leaves = LEAVES[:size]
    tiles = grown(leaves, data.draw(st.lists(st.integers(0, size), max_size=4)))
    index, first = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    shown = siblings(size, index)
    assert [root(one, tiles) for one in shown] == inclusion(leaves, index)
    assert [root(one, tiles) for one in additions(size, first)] == consistency(leaves, first)
    assert root((0, size), tiles) == Tree.of(leaves).root
    assert needed([*shown, (0, size)]) <= tiles.keys()


@cache
def large() -> tuple[list[bytes], dict[Place, bytes]]:
    leaves = [number.to_bytes(HASH, "big") for number in range(MOST)]
    return leaves, grown(leaves, [70_000])


@pytest.mark.parametrize("size", [1, WIDTH, WIDTH + 1, WIDTH * WIDTH, WIDTH * WIDTH + 1, MOST])
def test_tiles_that_have_grown_prove_what_was_before(size: int) -> None:
    leaves, tiles = large()
    now = root((0, size), tiles)
    assert now == Tree.of(leaves[:size]).root
    for index in {0, size // 2, size - 1}:
        shown = siblings(size, index)
        assert verify_inclusion(now, size, leaves[index], index, [root(one, tiles) for one in shown])
        assert len(needed(shown)) <= 6
    for first in {1, size // 3 or 1, size}:
        shown = [root(one, tiles) for one in additions(size, first)]
        assert verify_consistency(now, size, root((0, first), tiles), first, shown)


def test_each_hash_is_kept_once() -> None:
    _, tiles = large()
    kept = [sum(len(tile) for place, tile in tiles.items() if place[0] == level) // HASH for level in range(3)]
    assert kept == [MOST, MOST // WIDTH, MOST // WIDTH // WIDTH]


def test_a_missing_hash_is_an_error() -> None:
    with pytest.raises(NoTile):
        root((0, 3), {(0, 0): b"x" * 2 * HASH})
