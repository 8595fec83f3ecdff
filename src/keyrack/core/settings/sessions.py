"""Settings of browser sessions and second factors."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.value_errors import ValueForm


class Sessions(BaseSettings):
    """Settings of browser sessions and second factors."""

    section: ClassVar[str] = "sessions"
    title: ClassVar[str] = "Sessions and second factors"

    session_minutes: int = Field(
        default=720, ge=1, description="Idle time after which a browser session ends (minutes)."
    )
    session_hours: int = Field(
        default=168, ge=1, description="Maximum duration of a browser session, even one in use (hours)."
    )
    sessions_per_manager: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Maximum number of browser sessions of one manager. Above it, the least recently used session "
        "ends.",
    )
    reauthentication_minutes: int = Field(
        default=10,
        ge=1,
        description="Time after sign-in within which a manager may add or remove passkeys and other second factors, "
        "and connect accounts of providers (minutes). Later, the manager must sign in again. A driver may add a "
        "passkey within the same time.",
    )
    mfa_codes_per_hour: int = Field(
        default=20,
        ge=1,
        description="Rate limit of wrong six-digit codes of one manager, from all addresses together (per hour). Above"
        " it, requests get 429. A correct password does not reset it.",
    )
    mfa_code_burst: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Burst of wrong six-digit codes of one manager. As many within a day are reported to the manager "
        "by mail, and logged.",
    )
    passkeys_per_manager: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Maximum number of passkeys of one manager. Above it, a new one gets 409.",
    )
    drive_url: Annotated[
        str | None, ValueForm("an http or https address without a path, such as https://drive.example.com")
    ] = Field(
        default=None,
        pattern=r"^https?://[^\s/]+$",
        description="Address of the drivers' app, without `/drive`: another host name that reaches this server. Without"
        " it, the app is at the public address. Passkeys, cookies and links of drivers belong to this address.",
    )
    pending_logins_per_manager: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Maximum number of logins of one manager that wait for a second factor. Above it, the oldest are "
        "discarded.",
    )
