"""The hashes of a log's tree, stored in tiles of 256. A proof needs only a few.

The layout is that of C2SP's tlog-tiles. A tile of level 0 has the hashes of 256 leaves, in their order. A tile of level
1 has the roots of 256 of those, and so on. The last tile of each level may have fewer hashes, and grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from keyrack.changelog.transparency.merkle_tree import HASH, Tree, node_hash

HEIGHT = 8  # of a tile: 2 ** 8 hashes
WIDTH = 1 << HEIGHT

Place = tuple[int, int]  # of a tile: its level, and its number from the left
Range = tuple[int, int]  # leaves, from the first, inclusive, to an end, exclusive


class NoTile(LookupError):
    """A stored hash is missing."""


@dataclass(slots=True)
class Growth:
    """A growing tree with its growing tiles. At first, `open_tiles` must be those of `unfinished(tree.size)`."""

    tree: Tree
    open_tiles: dict[Place, bytearray] = field(default_factory=dict[Place, bytearray])
    touched: dict[Place, bytes] = field(default_factory=dict[Place, bytes])  # full tiles that are not stored yet

    def append(self, leaf: bytes) -> None:
        """Add a leaf, given by its `leaf_hash`."""
        number, level, hash = self.tree.size, 0, leaf
        self.tree.append(leaf)
        while True:
            place = (level, number >> HEIGHT)
            tile = self.open_tiles.setdefault(place, bytearray())
            tile += hash
            if len(tile) < WIDTH * HASH:
                return
            self.touched[place] = bytes(self.open_tiles.pop(place))
            hash = _root(_split(self.touched[place]))
            number, level = number >> HEIGHT, level + 1

    def take_changed(self) -> dict[Place, bytes]:
        """The tiles that have changed since the last call."""
        tiles = self.touched | {place: bytes(tile) for place, tile in self.open_tiles.items()}
        self.touched = {}
        return tiles


def unfinished(size: int) -> list[Place]:
    """The incomplete tiles of a tree, which will grow."""
    places, level = list[Place](), 0
    while size:
        if size % WIDTH:
            places.append((level, size >> HEIGHT))
        size, level = size >> HEIGHT, level + 1
    return places


def needed(ranges: Iterable[Range]) -> set[Place]:
    """The tiles that `root` needs for the roots of these ranges."""
    return {
        (height // HEIGHT, _first(height, index) >> HEIGHT) for leaves in ranges for height, index in _whole(leaves)
    }


def root(leaves: Range, tiles: Mapping[Place, bytes]) -> bytes:
    """The root over these leaves (RFC 6962, 2.1), which begin at a multiple of their subtree's size.

    Raises `NoTile`.
    """
    *others, node = [_node(height, index, tiles) for height, index in _whole(leaves)]
    for left in reversed(others):
        node = node_hash(left, node)
    return node


def rooted(tiles: Mapping[Place, bytes]) -> Callable[[Range], bytes]:
    """`root` over these tiles."""
    return lambda leaves: root(leaves, tiles)


def _whole(leaves: Range) -> list[tuple[int, int]]:
    """The complete subtrees of a range, from the left: height, and number among those of its height."""
    begin, end = leaves
    subtrees = list[tuple[int, int]]()
    while begin < end:
        height = (end - begin).bit_length() - 1
        subtrees.append((height, begin >> height))
        begin += 1 << height
    return subtrees


def _first(height: int, index: int) -> int:
    """The number of a subtree's first hash on the level of its tile."""
    return index << height % HEIGHT


def _node(height: int, index: int, tiles: Mapping[Place, bytes]) -> bytes:
    level, first, count = height // HEIGHT, _first(height, index), 1 << height % HEIGHT
    tile, begin = tiles.get((level, first >> HEIGHT), b""), first % WIDTH * HASH
    if len(tile) < begin + count * HASH:
        raise NoTile(f"tile {first >> HEIGHT} of level {level} has no hash {first % WIDTH + count - 1}")
    return _root(_split(tile[begin : begin + count * HASH]))


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[place : place + HASH] for place in range(0, len(hashes), HASH)]


def _root(hashes: list[bytes]) -> bytes:
    """The root over hashes whose count is a power of two."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[place], hashes[place + 1]) for place in range(0, len(hashes), 2)]
    return hashes[0]
