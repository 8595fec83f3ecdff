"""The Merkle tree over a log's records (RFC 6962), stored as its right edge.

A tree of n records consists of complete subtrees, one for each bit of n. Their roots (a compact range) are all that the
next record and the tree's root need: `change_log.tree`, at most 64 hashes.
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
    """The right edge of a tree: its number of leaves, and the roots of its complete subtrees, from the left."""

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
        """The tree that `stored` encodes; no bytes mean no leaves. Raises `NotATree`."""
        size = int.from_bytes(stored[:8], "big")
        if len(stored) != (8 + HASH * size.bit_count() if size else 0):
            raise NotATree(f"{len(stored)} bytes are no edge of a tree of {size} leaves")
        return cls(size, [stored[place : place + HASH] for place in range(8, len(stored), HASH)])

    @property
    def stored(self) -> bytes:
        """The bytes for `change_log.tree`: the number of leaves (8 bytes) and the edge."""
        return self.size.to_bytes(8, "big") + b"".join(self.edge) if self.size else b""

    def append(self, leaf: bytes) -> None:
        """Add a leaf, given by its `leaf_hash`."""
        closed = self.size
        while closed & 1:  # each carried bit is a subtree that is complete now
            leaf = node_hash(self.edge.pop(), leaf)
            closed >>= 1
        self.edge.append(leaf)
        self.size += 1

    @property
    def root(self) -> bytes:
        """The root hash over all leaves and their order (RFC 6962, 2.1)."""
        if not self.size:
            return EMPTY
        *others, root = self.edge
        for left in reversed(others):
            root = node_hash(left, root)
        return root


def leaf_hash(record: bytes) -> bytes:
    """The leaf hash of a record's bytes (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\0" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node above two subtrees (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\1" + left + right).digest()
