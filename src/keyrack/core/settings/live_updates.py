"""Settings of live updates."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Live(BaseSettings):
    """Settings of live updates: streams, long polls and the change feed."""

    section: ClassVar[str] = "live"
    title: ClassVar[str] = "Live updates"

    live_streams: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of streams and long polls of `GET /live` and `GET /changes` in each process. It is"
        " never more than half of the connections. Above it, requests get 503.",
    )
    live_streams_per_customer: int = Field(
        default=300,
        ge=1,
        description="Maximum number of streams and long polls of one customer in each process. Above it, requests get "
        "429.",
    )
    live_streams_per_caller: int = Field(
        default=50,
        ge=1,
        description="Maximum number of streams and long polls of one caller in each process. Above it, requests get "
        "429.",
    )
    outcome_waits: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of requests with `wait` that wait for outcomes of operations in each process. It is"
        " never more than a quarter of the connections. Above it, requests are answered without waiting.",
    )
    outcome_waits_per_customer: int = Field(
        default=100,
        ge=1,
        description="Maximum number of requests with `wait` of one customer that wait for outcomes of operations in"
        " each process. Above it, requests are answered without waiting.",
    )
    live_keepalive: float = Field(
        default=20.0,
        gt=0,
        le=60,
        description="Interval of keep-alive messages on a stream without events (seconds), so that proxies keep it "
        "open. The server checks the caller's access at the same interval.",
    )
    live_tracked_customers: int = Field(
        default=10_000,
        ge=1,
        description="Maximum number of customers whose latest changes each process keeps, so that streams can resume. "
        "A client that resumes from an older change is asked to read everything again.",
    )
    live_scoped_interval_seconds: float = Field(
        default=10.0,
        ge=0.1,
        le=60,
        description="Interval at which a `GET /live` stream of a group-limited caller reports all of its topics, "
        "whether they have changed or not (seconds).",
    )
    feed_queue_batches: int = Field(
        default=100,
        ge=1,
        description="Maximum number of batches, of up to 100 changes each, that wait for one subscriber of the change "
        "feed. Above it, the stream is closed, and the client resumes where it was.",
    )
    feed_queue_bytes: int = Field(
        default=262_144,
        ge=1,
        description="Maximum size of the batches that wait for one subscriber of the change feed (bytes). Above it, "
        "the stream is closed. A single batch may be larger.",
    )
    feed_poll_interval_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Interval at which a change log with subscribers is polled if no notification arrives (seconds).",
    )
