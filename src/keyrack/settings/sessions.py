"""In charge of settings of sessions: how long a browser stays signed in."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class Sessions(BaseSettings):
    """Settings of sessions: how long a browser stays signed in."""

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
    fresh_sign_in_minutes: int = Field(
        default=10,
        ge=1,
        description="Minutes after signing in within which passkeys and other second factors may be added and removed, "
        "and accounts of providers connected; later one signs in again first.",
    )
