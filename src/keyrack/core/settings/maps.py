"""Settings of the console's maps."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.map_tiles import Tiles, tiles


class Maps(BaseSettings):
    """Settings of the console's maps: tiles and attribution."""

    section: ClassVar[str] = "maps"
    title: ClassVar[str] = "Maps"

    map_tiles: str | None = Field(
        default=None,
        description="Streets on the console's maps: the path of a `.pmtiles` file on this server, or an `https://` "
        "address of such a file or of tiles with `{z}`, `{x}` and `{y}`. Browsers request such an address themselves. "
        "If unset, maps show borders and cities, and browsers contact no other server "
        "([maps.md](maps.md)).",
    )
    map_attribution: str = Field(
        default="© OpenStreetMap contributors, openstreetmap.org/copyright",
        max_length=300,
        description="Attribution that the licence of the tiles requires on the map. Addresses in it become links.",
    )
    map_range_bytes: int = Field(
        default=2_000_000,
        ge=16_384,
        le=50_000_000,
        description="Maximum size of one range of the tile file (bytes). Above it, the request gets 416. A tile has "
        "some 100,000 bytes.",
    )

    @field_validator("map_tiles")
    @classmethod
    def _are_tiles(cls, value: str | None) -> str | None:
        if value is not None:
            tiles(value)
        return value

    @property
    def tiles(self) -> Tiles | None:
        """The parsed `map_tiles`."""
        return None if self.map_tiles is None else tiles(self.map_tiles)
