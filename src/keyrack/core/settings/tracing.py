"""Settings of tracing."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Tracing(BaseSettings):
    """Settings of tracing: collector, sampling and queue."""

    section: ClassVar[str] = "tracing"
    title: ClassVar[str] = "Tracing"

    traces: str | None = Field(
        default=None,
        description="OTLP/HTTP endpoint of a trace collector, for example `http://127.0.0.1:4318/v1/traces`. It "
        "requires the extra `keyrack[traces]`. If unset, tracing is off, and OpenTelemetry is not loaded.",
    )
    traces_sample_ratio: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Fraction of requests that are traced, from 0 to 1, with the operations and deliveries that they "
        "cause.",
    )
    traces_trust_parent: bool = Field(
        default=False,
        description="`true` lets the sampled flag of a caller's `traceparent` decide instead of the sample ratio. Use "
        "it only if all callers are your own, or if a gateway sets the header.",
    )
    traces_customers: bool = Field(
        default=False, description="`true` adds the customer's id to the spans of requests and operations."
    )
    traces_queue: int = Field(
        default=2_048,
        ge=1,
        le=1_000_000,
        description="Maximum number of spans that wait for the collector in each process. Above it, spans are dropped "
        "and counted in `keyrack_trace_spans_total`.",
    )

    @field_validator("traces")
    @classmethod
    def _is_a_collector(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
                raise ValueError(
                    "the value is not an http or https address without a user. Write, for example, "
                    "http://127.0.0.1:4318/v1/traces"
                )
        return value
