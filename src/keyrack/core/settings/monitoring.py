"""Settings of metrics, health checks and the access log."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.value_errors import ValueForm

PORT = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]+)):([0-9]{1,5})")


class Monitoring(BaseSettings):
    """Settings of metrics, health checks and the access log."""

    section: ClassVar[str] = "monitoring"
    title: ClassVar[str] = "Monitoring"

    metrics: str | None = Field(
        default=None,
        description="Address and port of the Prometheus endpoint of `serve`, `work` and `demo`, for example "
        "`127.0.0.1:9464`. If unset, there is no endpoint. It has no authentication: bind it to an address that only "
        "operators reach.",
    )
    metrics_customers: Annotated[str, ValueForm("true, false, or comma-separated ids of customers")] = Field(
        default="false",
        pattern=r"^(true|false|\s*[0-9]+\s*(,\s*[0-9]+\s*)*)$",
        description="Customers that have metrics of their own: comma-separated ids, `true` for all, `false` for none.",
    )
    metrics_series: int = Field(
        default=2_000,
        ge=0,
        le=100_000,
        description="Maximum number of time series of customers in each process. Above it, values are dropped and "
        "counted in `keyrack_metrics_dropped_total`.",
    )
    health_check_timeout_seconds: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="Maximum time that `GET /health` and `GET /health/ready` wait for the database (seconds). After "
        "it, they report that the database does not respond.",
    )
    access_log: bool = Field(default=False, description="`true` logs one line for each request.")

    @field_validator("metrics")
    @classmethod
    def _is_a_port(cls, value: str | None) -> str | None:
        if value is not None:
            where(value)
        return value


def where(value: str) -> tuple[str, int]:
    """The address and the port of `metrics`. Raises `ValueError` if malformed."""
    match = PORT.fullmatch(value)
    if match is None or int(match[3]) > 65_535:
        raise ValueError(f"{value!r} is not an address with a port. Write, for example, 127.0.0.1:9464 or [::1]:9464")
    return match[1] or match[2], int(match[3])
