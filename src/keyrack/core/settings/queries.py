"""Settings of lists and query options."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Lists(BaseSettings):
    """Settings of lists, query options and the console's exports."""

    section: ClassVar[str] = "lists"
    title: ClassVar[str] = "Lists and queries"

    list_chunk_rows: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Maximum number of rows of a list that one statement reads. A longer list is sent in several "
        "chunks.",
    )
    list_chunk_bytes: int = Field(
        default=500_000,
        ge=1,
        le=50_000_000,
        description="Maximum size of one chunk of a list (bytes). The last row of a chunk may exceed it.",
    )
    spool_bytes: int = Field(
        default=1_000_000_000,
        ge=2,
        description="Maximum size of the temporary files in which each process keeps long responses whose order has no"
        " index (bytes). One customer uses at most half of it: a longer response gets 400. Requests get 503 while "
        "other responses occupy the space.",
    )
    spool_timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Maximum time to write a long response to its temporary file (seconds). After it, the request gets"
        " 400.",
    )
    spool_directory: Path | None = Field(
        default=None,
        description="Directory of the temporary files for long responses. The files have no names. Default: the "
        "system's directory for temporary files.",
    )
    odata_nesting: int = Field(
        default=50, ge=1, le=70, description="Maximum nesting depth of a query option. Above it, the request gets 400."
    )
    odata_nodes: int = Field(
        default=400,
        ge=1,
        le=5_000,
        description="Maximum number of parts of the expressions in a query option. Above it, the request gets 400.",
    )
    odata_items: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of values in the list of an `in`. Above it, the request gets 400.",
    )
    odata_orderby: int = Field(
        default=10, ge=1, description="Maximum number of items in `$orderby`. Above it, the request gets 400."
    )
    odata_select: int = Field(
        default=100, ge=1, description="Maximum number of items in `$select`. Above it, the request gets 400."
    )
    odata_top: int = Field(default=10_000, ge=1, description="Maximum value of `$top`. Above it, the request gets 400.")
    odata_expanded: int = Field(
        default=10_000,
        ge=1,
        description="Maximum number of rows of a relation that `$expand` adds to one row, unless the relation has a "
        "`$top` of its own. Above it, the request gets 400.",
    )
    odata_digits: int = Field(
        default=40,
        ge=1,
        description="Maximum number of digits of a number in a query option. Above it, the request gets 400.",
    )
    odata_transformations: int = Field(
        default=20,
        ge=1,
        le=50,
        description="Maximum number of transformations in one `$apply`. Above it, the request gets 400.",
    )
    odata_properties: int = Field(
        default=30,
        ge=1,
        le=40,
        description="Maximum number of properties that `$apply` and `$compute` create or group by. Above it, the "
        "request gets 400.",
    )
    track_days: int = Field(
        default=31,
        ge=1,
        le=3_660,
        description="Maximum time range of one request for a car's track or samples (days). Above it, the request gets"
        " 400.",
    )
    track_points: int = Field(
        default=2_000,
        ge=2,
        le=100_000,
        description="Maximum number of points in a track. A longer track is thinned out evenly, and the response "
        "reports it.",
    )
    access_max_periods: int = Field(
        default=10_000,
        ge=1,
        le=100_000,
        description="Maximum number of access periods in one response. Above it, the request gets 400.",
    )
    sample_points: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Maximum number of buckets in each series of samples. Above it, the request gets 400.",
    )
    console_export_max_rows: int = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of rows in a file that the console exports. The last line of the file says if "
        "there are more.",
    )
    console_bulk_max_rows: int = Field(
        default=5_000,
        ge=1,
        le=50_000,
        description="Maximum number of rows of one bulk action in the console. Above it, the console rejects the "
        "action.",
    )
