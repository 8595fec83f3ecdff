"""In charge of settings of traces."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Tracing(BaseSettings):
    """Settings of traces."""

    section: ClassVar[str] = "tracing"

    traces: str | None = Field(
        default=None,
        description="Where a collector of traces takes OTLP over HTTP, as `http://127.0.0.1:4318/v1/traces`. It needs "
        "the extra `keyrack[traces]`. Without it nothing is traced, and nothing of OpenTelemetry is loaded.",
    )
    traces_sample_ratio: float = Field(
        default=0.01, ge=0, le=1, description="Share of the requests that are traced, with what comes of them."
    )
    traces_trust_parent: bool = Field(
        default=False,
        description="`true` to trace what callers trace: the sampled flag of their `traceparent` decides, not the "
        "share. For callers that are all your own, or a gateway that sets the header.",
    )
    traces_customers: bool = Field(default=False, description="`true` to tell the customer's id with each trace.")
    traces_queue: int = Field(
        default=2_048,
        ge=1,
        le=1_000_000,
        description="Spans that each process keeps for the collector, at most; more are dropped, and counted in "
        "`keyrack_trace_spans_total`.",
    )

    @field_validator("traces")
    @classmethod
    def _is_a_collector(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
                raise ValueError("this is no address of a collector: write http://127.0.0.1:4318/v1/traces")
        return value
