"""The Merkle tree of a log: the roots of other implementations of RFC 6962, for any size."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.changelog.transparency.merkle_tree import EMPTY, NotATree, Tree, leaf_hash, node_hash

# Test leaves and roots of Certificate Transparency's own implementations
LEAVES = [bytes.fromhex(leaf) for leaf in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def as_defined(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962, 2.1, over the hashes of leaves."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    half = 1
    while 2 * half < len(leaves):
        half *= 2
    return hashlib.sha256(b"\1" + as_defined(leaves[:half]) + as_defined(leaves[half:])).digest()


@pytest.mark.parametrize("size", range(9))
def test_roots_match_other_implementations(size: int) -> None:
    assert Tree.of(map(leaf_hash, LEAVES[:size])).root.hex() == ROOTS[size]


@given(leaves=st.lists(st.binary(min_size=32, max_size=32), max_size=200))
def test_a_root_follows_the_definition(leaves: list[bytes]) -> None:
    assert Tree.of(leaves).root == as_defined(leaves)


@given(leaves=st.lists(st.binary(min_size=32, max_size=32), max_size=100), cut=st.integers(0, 100))
def test_a_tree_goes_on_from_what_was_stored(leaves: list[bytes], cut: int) -> None:
    stored = Tree.of(leaves[:cut]).stored
    tree = Tree.read(stored)
    assert (tree.size, tree.stored) == (len(leaves[:cut]), stored)
    for leaf in leaves[cut:]:
        tree.append(leaf)
    assert (tree.size, tree.root) == (len(leaves), as_defined(leaves))


def test_a_log_without_changes_is_stored_as_nothing() -> None:
    assert Tree().stored == b""
    assert Tree.read(b"").root == Tree().root == EMPTY


def test_a_tree_of_any_size_takes_no_more_than_its_edge() -> None:
    tree = Tree(2**40 - 1, [leaf_hash(bytes([number])) for number in range(40)])
    assert len(tree.stored) == 8 + 40 * 32
    tree.append(leaf_hash(b""))
    assert (tree.size, len(tree.edge), len(tree.stored)) == (2**40, 1, 40)


@pytest.mark.parametrize("wrong", [b"\0", bytes(8), bytes(7) + b"\1", bytes(7) + b"\3" + bytes(32), b"x" * 40])
def test_invalid_edges_are_rejected(wrong: bytes) -> None:
    with pytest.raises(NotATree, match="bytes are no edge of a tree of"):
        Tree.read(wrong)


def test_a_leaf_is_never_a_node() -> None:
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != node_hash(left, right)
