"""In charge of the tree over a log's records: a Merkle tree of RFC 6962, of which only its right edge is kept.

A tree of n records consists of whole subtrees, one for each bit of n. Their roots (a compact range) are all that the
next record needs, and all that the tree's root is made of: `change_log.tree`, at most 64 hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

HASH = 32  # bytes
EMPTY = hashlib.sha256().digest()  # the root of a tree without leaves


class NotATree(ValueError):
    """These bytes are no compact range."""


@dataclass(slots=True)
class Tree:
    """The right edge of a tree: its number of leaves, and the roots of its whole subtrees, from the left."""

    size: int = 0
    edge: list[bytes] = field(default_factory=list[bytes])

    @classmethod
    def of(cls, leaves: Iterable[bytes]) -> Tree:
        """The tree of these leaves' hashes."""
        tree = cls()
        for leaf in leaves:
            tree.append(leaf)
        return tree

    @classmethod
    def read(cls, stored: bytes) -> Tree:
        """What `stored` made; no bytes are a tree without leaves. Raises `NotATree`."""
        size = int.from_bytes(stored[:8], "big")
        if len(stored) != (8 + HASH * size.bit_count() if size else 0):
            raise NotATree(f"{len(stored)} bytes are no edge of a tree of {size} leaves")
        return cls(size, [stored[place : place + HASH] for place in range(8, len(stored), HASH)])

    @property
    def stored(self) -> bytes:
        """For `change_log.tree`: the number of leaves (8 bytes) and the edge."""
        return self.size.to_bytes(8, "big") + b"".join(self.edge) if self.size else b""

    def append(self, leaf: bytes) -> None:
        """One more leaf: its `leaf_hash`."""
        closed = self.size
        while closed & 1:  # each bit that carries is a subtree that is whole now
            leaf = node_hash(self.edge.pop(), leaf)
            closed >>= 1
        self.edge.append(leaf)
        self.size += 1

    @property
    def root(self) -> bytes:
        """RFC 6962, 2.1: the hash that stands for all leaves and their order."""
        if not self.size:
            return EMPTY
        *others, root = self.edge
        for left in reversed(others):
            root = node_hash(left, root)
        return root


def leaf_hash(record: bytes) -> bytes:
    """RFC 6962, 2.1: of the bytes of a record."""
    return hashlib.sha256(b"\0" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """RFC 6962, 2.1: of what stands above two subtrees."""
    return hashlib.sha256(b"\1" + left + right).digest()
