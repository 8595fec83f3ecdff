"""In charge of settings of live updates."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Live(BaseSettings):
    """Settings of live updates."""

    section: ClassVar[str] = "live"

    live_streams: int = Field(
        default=1_000,
        ge=1,
        description="Streams of `GET /live` and `GET /changes`, and requests that wait there, that each process holds "
        "open, at most, and never more than half of its connections: 503.",
    )
    live_streams_per_customer: int = Field(
        default=300, ge=1, description="Such streams of one customer in each process: 429."
    )
    live_streams_per_caller: int = Field(
        default=50, ge=1, description="Such streams of one manager in each process: 429."
    )
    live_keepalive: float = Field(
        default=20.0,
        gt=0,
        le=60,
        description="Seconds after which a stream with no news gets a sign of life, so that no proxy closes it, and "
        "after which it is looked again whether its caller may still have it.",
    )
    live_tracked_customers: int = Field(
        default=10_000,
        ge=1,
        description="Customers of which a process remembers what has changed last, for streams that come back; who "
        "comes back after more is told to read everything again.",
    )
    live_scoped_interval_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        description="Seconds after which the stream of `GET /live` of a group-limited caller reports all of its topics,"
        " whether anything has changed or not.",
    )
    feed_queue_batches: int = Field(
        default=100,
        ge=1,
        description="Pieces of up to 100 changes that wait for one listener of the feed of changes, at most: its "
        "stream is closed then, and goes on where it was when it comes back.",
    )
    feed_queue_bytes: int = Field(default=262_144, ge=1, description="Bytes of them, at most; one piece may have more.")
    feed_poll_interval_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Seconds after which it is looked whether a customer's log goes on, as long as somebody follows "
        "it, though nobody has told so.",
    )
