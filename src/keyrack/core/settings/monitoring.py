"""In charge of settings of what operators see: metrics and the log."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.value_errors import ValueForm

PORT = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]]+)):([0-9]{1,5})")


class Monitoring(BaseSettings):
    """Settings of what operators see: metrics and the log."""

    section: ClassVar[str] = "monitoring"

    metrics: str | None = Field(
        default=None,
        description="Address and port at which `serve`, `work` and `demo` show their metrics to Prometheus, as "
        "`127.0.0.1:9464`: for those who may see them alone, it asks for no key. Without it there is no such listener.",
    )
    metrics_customers: Annotated[str, ValueForm("true, false, or ids of customers with commas between them")] = Field(
        default="false",
        pattern=r"^(true|false|\s*[0-9]+\s*(,\s*[0-9]+\s*)*)$",
        description="Customers that have metrics of their own: ids, comma-separated, or `true` for all.",
    )
    metrics_series: int = Field(
        default=2_000,
        ge=0,
        le=100_000,
        description="Time series that each process keeps of customers, at most; what would need more is counted in "
        "`keyrack_metrics_dropped_total` alone.",
    )
    health_check_timeout_seconds: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="Seconds that `GET /health` and `GET /health/ready` wait for the database, at most: then they say "
        "that it is silent.",
    )
    access_log: bool = Field(default=False, description="`true` for a line in the log about each request.")

    @field_validator("metrics")
    @classmethod
    def _is_a_port(cls, value: str | None) -> str | None:
        if value is not None:
            where(value)
        return value


def where(value: str) -> tuple[str, int]:
    """The address and the port of `metrics`. Raises `ValueError`."""
    match = PORT.fullmatch(value)
    if match is None or int(match[3]) > 65_535:
        raise ValueError(f"{value!r} is no address with a port: write 127.0.0.1:9464, or [::1]:9464")
    return match[1] or match[2], int(match[3])
