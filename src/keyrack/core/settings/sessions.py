"""In charge of settings of sessions: how long a browser stays signed in."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Sessions(BaseSettings):
    """Settings of sessions: how long a browser stays signed in."""

    section: ClassVar[str] = "sessions"

    session_minutes: int = Field(
        default=720, ge=1, description="Minutes without a request, after which a browser is signed out."
    )
    session_hours: int = Field(
        default=168, ge=1, description="Hours after which a browser is signed out, however busy it is."
    )
    sessions_per_manager: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Browsers in which a manager is signed in at a time, at most; with one more, the one that was not "
        "seen for the longest time is signed out.",
    )
    reauthentication_minutes: int = Field(
        default=10,
        ge=1,
        description="Minutes after signing in within which passkeys and other second factors may be added and removed, "
        "and accounts of providers connected; later one signs in again first.",
    )
    mfa_codes_per_hour: int = Field(
        default=20,
        ge=1,
        description="Wrong six-digit codes of each manager an hour, over time, from all addresses together. A right "
        "password returns none.",
    )
    mfa_code_burst: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Wrong six-digit codes of each manager at once. As many within a day are reported to the "
        "manager by mail, and in the log.",
    )
    passkeys_per_manager: int = Field(default=20, ge=1, le=1_000, description="Passkeys of a manager, at most.")
    pending_logins_per_manager: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Browsers that wait for a manager's second factor at a time, at most; the oldest give way.",
    )
