"""Inclusion and consistency proofs of a log's tree.

They are those of RFC 9162, 2.1.3 and 2.1.4 (the same as RFC 6962's). A reader that has the roots verifies them without
trusting the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from keyrack.changelog.transparency.merkle_tiles import Range
from keyrack.changelog.transparency.merkle_tree import EMPTY, Tree, node_hash


def siblings(size: int, index: int) -> list[Range]:
    """The ranges of leaves whose roots are an inclusion proof, in its order (RFC 9162, 2.1.3.1).

    Raises `IndexError` if the leaf does not exist.
    """
    if not 0 <= index < size:
        raise IndexError(f"there is no leaf {index} in a tree of {size}")
    ranges, begin, end = list[Range](), 0, size
    while end - begin > 1:
        middle = begin + _half(end - begin)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((begin, middle))
            begin = middle
    return ranges[::-1]


def additions(size: int, first: int) -> list[Range]:
    """The ranges for the proof that a tree begins with its `first` leaves (RFC 9162, 2.1.4.1).

    Raises `IndexError` if there are fewer.
    """
    if not 0 <= first <= size:
        raise IndexError(f"a tree of {size} leaves has no first {first}")
    ranges, begin, end = list[Range](), 0, size
    while begin < first < end:
        middle = begin + _half(end - begin)
        if first <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((begin, middle))
            begin = middle
    # The reader already has the root of the first tree, so it is left out
    return ranges[::-1] if begin == 0 or first in (0, size) else [(begin, end), *ranges[::-1]]


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The proof that the leaf with this index, from 0, is in the tree of these leaves' hashes.

    Raises `IndexError` if the leaf does not exist.
    """
    return [Tree.of(leaves[begin:end]).root for begin, end in siblings(len(leaves), index)]


def consistency(leaves: Sequence[bytes], first: int) -> list[bytes]:
    """The proof that the tree of these leaves' hashes begins with that of the `first` ones.

    Raises `IndexError` if there are fewer.
    """
    return [Tree.of(leaves[begin:end]).root for begin, end in additions(len(leaves), first)]


def verify_inclusion(root: bytes, size: int, leaf: bytes, index: int, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows a leaf's hash in the tree with this root and size (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, node = index, size - 1, leaf
    for other in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = node_hash(other, node)
            place, last = _above(place, last)
        else:
            node = node_hash(node, other)
        place, last = place >> 1, last >> 1
    return last == 0 and node == root


def verify_consistency(root: bytes, size: int, first_root: bytes, first: int, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that a tree begins with the `first` leaves of an older one (RFC 9162, 2.1.4.2)."""
    if first in (0, size):
        return not proof and first_root == (root if first else EMPTY)
    if not 0 < first < size or not proof:
        return False
    begin, *others = (first_root, *proof) if first & (first - 1) == 0 else proof
    place, last = first - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = begin
    for other in others:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(other, old), node_hash(other, new)
            place, last = _above(place, last)
        else:
            new = node_hash(new, other)
        place, last = place >> 1, last >> 1
    return last == 0 and old == first_root and new == root


def _half(size: int) -> int:
    """The number of leaves left of the root: the greatest power of two below the size."""
    return 1 << (size - 1).bit_length() - 1


def _above(place: int, last: int) -> tuple[int, int]:
    """Skip levels without a right neighbour, up to one with a left neighbour."""
    while place and not place & 1:
        place, last = place >> 1, last >> 1
    return place, last
