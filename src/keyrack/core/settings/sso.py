"""In charge of settings of single sign-on: how providers are reached, and how far their clocks may be off."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Federation(BaseSettings):
    """Settings of single sign-on: how providers are reached, and how far their clocks may be off."""

    section: ClassVar[str] = "federation"

    provider_timeout: float = Field(
        default=10.0, gt=0, le=60, description="Seconds that a provider of single sign-on has for each answer."
    )
    provider_metadata_ttl_seconds: int = Field(
        default=3_600,
        ge=60,
        le=86_400,
        description="Seconds for which a process goes on with a provider's addresses and keys. For a token of a key "
        "that it does not know it looks anew, five times in five minutes at most.",
    )
    provider_skew: int = Field(
        default=60,
        ge=0,
        le=300,
        description="Seconds by which a provider's clock may differ from ours, ahead or behind.",
    )
    provider_networks: str = Field(
        default="",
        description="Networks, comma-separated, in which providers of single sign-on may be although they are not "
        "public, such as `10.0.0.0/8`. `KEYRACK_WEBHOOK_DENIED_NETWORKS` holds for them too.",
    )
    provider_loopback: bool = Field(
        default=False,
        description="Whether a provider may be on this machine and without TLS, as at `http://127.0.0.1:9000`: for "
        "development and tests only.",
    )
