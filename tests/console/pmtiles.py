"""Small PMTiles files (version 3) of hand-made vector tiles (Mapbox Vector Tile 2.1)."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

EXTENT = 4096  # of a tile
POINT, LINE, POLYGON = 1, 2, 3
Places = Sequence[tuple[int, int]]
Feature = tuple[int, Places, dict[str, str]]


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def _geometry(kind: int, places: Places) -> bytes:
    turned = [(to[0] - was[0], to[1] - was[1]) for was, to in zip([(0, 0), *places], places, strict=False)]
    steps = [b"".join(varint(step << 1 ^ step >> 31) for step in pair) for pair in turned]
    drawn = varint(1 | 1 << 3) + steps[0]
    if kind != POINT:
        drawn += varint(2 | (len(steps) - 1) << 3) + b"".join(steps[1:])
    return drawn + (varint(7 | 1 << 3) if kind == POLYGON else b"")


def layer(name: str, features: Sequence[Feature]) -> bytes:
    """A layer of a tile: features of a kind, with places in the tile from its upper left corner, and their tags."""
    keys = sorted({key for *_, tags in features for key in tags})
    values = sorted({value for *_, tags in features for value in tags.values()})
    made = b""
    for kind, places, tags in features:
        pairs = b"".join(varint(keys.index(key)) + varint(values.index(value)) for key, value in tags.items())
        made += _field(2, _field(2, pairs) + varint(3 << 3) + varint(kind) + _field(4, _geometry(kind, places)))
    named = b"".join(_field(3, key.encode()) for key in keys)
    named += b"".join(_field(4, _field(1, value.encode())) for value in values)
    return _field(
        3, _field(1, name.encode()) + made + named + varint(5 << 3) + varint(EXTENT) + varint(15 << 3) + b"\2"
    )


def tile_number(zoom: int, column: int, row: int) -> int:
    """The number of a tile: those of lower zooms before, then along a Hilbert curve (its specification, chapter 4)."""
    number, side, x, y = (4**zoom - 1) // 3, 1 << zoom >> 1, column, row
    while side:
        right, low = int(bool(x & side)), int(bool(y & side))
        number += side * side * (3 * right ^ low)
        if not low:
            if right:
                x, y = side - 1 - (x & side - 1), side - 1 - (y & side - 1)
            x, y = y, x
        x, y, side = x & side - 1, y & side - 1, side >> 1
    return number


def pmtiles(
    tiles: dict[tuple[int, int, int], bytes],
    region: tuple[float, float, float, float],
    *,
    version: int = 3,
    type: int = 1,
    packing: int = 2,
) -> bytes:
    """A file of tiles, (zoom, column, row) -> content. Its header has this region: west, south, east, north."""
    numbered = sorted((tile_number(*place), gzip.compress(content, mtime=0)) for place, content in tiles.items())
    numbers = [number for number, _ in numbered]
    lengths = [len(content) for _, content in numbered]
    columns = [
        [number - before for before, number in zip([0, *numbers], numbers, strict=False)],
        [1] * len(numbers),
        lengths,
        [1] + [0] * (len(numbers) - 1),  # where the first one is, plus 1; each other one stands behind it
    ]
    directory = gzip.compress(varint(len(numbers)) + b"".join(varint(v) for column in columns for v in column), mtime=0)
    metadata = gzip.compress(b"{}", mtime=0)
    root, behind = 127, 127 + len(directory)
    content = behind + len(metadata)
    zooms = [zoom for zoom, _, _ in tiles]
    west, south, east, north = (round(degrees * 10_000_000) for degrees in region)
    header = b"PMTiles" + struct.pack(
        "<B11Q6B4iB2i",
        version, root, len(directory), behind, len(metadata), 0, 0, content, sum(lengths), *[len(numbers)] * 3,
        1, 2, packing, type, min(zooms), max(zooms), west, south, east, north, min(zooms), west, south,
    )  # fmt: skip
    return header + directory + metadata + b"".join(part for _, part in numbered)
