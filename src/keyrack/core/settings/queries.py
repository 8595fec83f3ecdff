"""In charge of settings of long answers, and query options."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Lists(BaseSettings):
    """Settings of long answers, and query options."""

    section: ClassVar[str] = "lists"

    list_chunk_rows: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Rows of a list that one statement reads; a longer list goes out in pieces of so many.",
    )
    list_chunk_bytes: int = Field(
        default=500_000, ge=1, le=50_000_000, description="Bytes of such a piece; its last row may exceed them."
    )
    spool_bytes: int = Field(
        default=1_000_000_000,
        ge=2,
        description="Bytes of the files in which each process keeps long answers that no index leads through. A "
        "customer takes half of them: above 400, and 503 while others are under way.",
    )
    spool_timeout_seconds: float = Field(
        default=60.0, gt=0, description="Seconds in which such an answer must be in its file: 400."
    )
    spool_directory: Path | None = Field(
        default=None,
        description="Directory of these files, which have no names. Without it: the system's for temporary files.",
    )
    odata_nesting: int = Field(default=50, ge=1, le=70, description="Levels of nesting in a query option.")
    odata_nodes: int = Field(default=400, ge=1, le=5_000, description="Parts of the expressions of a query option.")
    odata_items: int = Field(default=1_000, ge=1, description="Values in the list of an `in`.")
    odata_orderby: int = Field(default=10, ge=1, description="Items of `$orderby`.")
    odata_select: int = Field(default=100, ge=1, description="Items of `$select`.")
    odata_top: int = Field(default=10_000, ge=1, description="Rows that `$top` may ask for.")
    odata_expanded: int = Field(
        default=10_000,
        ge=1,
        description="Rows of a relation that `$expand` shows in one row, unless it has a `$top` of its own: 400.",
    )
    odata_digits: int = Field(default=40, ge=1, description="Digits of a number in a query option.")
    odata_transformations: int = Field(default=20, ge=1, le=50, description="Transformations of one `$apply`.")
    odata_properties: int = Field(
        default=30, ge=1, le=40, description="Properties that `$apply` and `$compute` make or group by."
    )
    track_days: int = Field(
        default=31,
        ge=1,
        le=3_660,
        description="Days of a car's track, or of its samples, that may be asked for at once: 400.",
    )
    track_points: int = Field(
        default=2_000,
        ge=2,
        le=100_000,
        description="Points of a track at most: of more, so many are shown, evenly, and the answer says so.",
    )
    access_max_periods: int = Field(
        default=10_000,
        ge=1,
        le=100_000,
        description="Stretches that an answer about access has at most; with more, 400.",
    )
    sample_points: int = Field(
        default=1_000, ge=1, le=100_000, description="Buckets of each series of samples at most; with more, 400."
    )
    console_export_max_rows: int = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="Rows of a list that the console writes into a file; its last line says when there are more.",
    )
    console_bulk_max_rows: int = Field(
        default=5_000,
        ge=1,
        le=50_000,
        description="Rows of a list with which the console does something at once, at most: it refuses more in words.",
    )
