"""Settings of single sign-on."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Federation(BaseSettings):
    """Settings of single sign-on: timeouts, caches and networks of providers."""

    section: ClassVar[str] = "federation"
    title: ClassVar[str] = "Single sign-on"

    provider_timeout: float = Field(
        default=10.0, gt=0, le=60, description="Timeout of a response from a single sign-on provider (seconds)."
    )
    provider_metadata_ttl_seconds: int = Field(
        default=3_600,
        ge=60,
        le=86_400,
        description="Time for which a process caches the addresses and keys of a provider (seconds). A token with an "
        "unknown key reloads the keys, at most five times in five minutes.",
    )
    provider_skew: int = Field(
        default=60,
        ge=0,
        le=300,
        description="Maximum difference between the clock of a provider and this server's clock (seconds).",
    )
    provider_networks: str = Field(
        default="",
        description="Networks, comma-separated, in which single sign-on providers may be although they are not public,"
        " for example `10.0.0.0/8`. `KEYRACK_WEBHOOK_DENIED_NETWORKS` takes precedence.",
    )
    provider_loopback: bool = Field(
        default=False,
        description="`true` allows a provider on this machine without TLS, for example `http://127.0.0.1:9000`. Use it"
        " only for development and tests.",
    )
