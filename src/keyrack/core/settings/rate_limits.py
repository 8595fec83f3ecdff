"""In charge of settings of how often somebody may do something, and how long it is remembered who may."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Callers(BaseSettings):
    """Settings of how often somebody may do something, and how long it is remembered who may."""

    section: ClassVar[str] = "callers"

    assignment_rate: int = Field(
        default=600,
        ge=1,
        description="Assignments a minute that each customer may ask for over time: each `PUT /assignments` and each "
        "creation in a batch counts.",
    )
    assignment_burst: int = Field(
        default=100,
        ge=1,
        description="Assignments that a customer may ask for at once. A batch may go beyond, if one is left: what it "
        "takes beyond that is paid before the next.",
    )
    login_rate_per_username_and_address: int = Field(
        default=12, ge=1, description="Failed log-ins a minute for each user name from each address, over time."
    )
    login_burst_per_username_and_address: int = Field(
        default=10, ge=1, description="Failed log-ins for each user name from each address at once."
    )
    login_rate_per_address: int = Field(
        default=120,
        ge=1,
        description="Failed log-ins a minute from each address, over time. An IPv6 address counts as its /64. A /56 "
        "has four times the limit, a /48 sixteen times. Challenges for passkeys have a limit of the same size.",
    )
    login_burst_per_address: int = Field(default=100, ge=1, description="Failed log-ins from each address at once.")
    login_rate_per_username: int = Field(
        default=240,
        ge=1,
        description="Failed log-ins a minute for each user name from all addresses together, over time: how fast many "
        "computers may guess one password, and what they need to lock its owner out.",
    )
    login_burst_per_username: int = Field(
        default=1_000, ge=1, description="Failed log-ins for each user name from all addresses together at once."
    )
    user_lookups_per_hour: int = Field(
        default=1_000,
        ge=1,
        description="Users that each customer may assign to itself by their e-mail address an hour, over time. Each "
        "`PUT /users/assignments/customers` with an address counts.",
    )
    user_lookup_burst: int = Field(
        default=1_000, ge=1, description="Users that each customer may assign to itself by their address at once."
    )
    denial_log_interval_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3_600,
        description="Seconds between two writes of what a process has refused for want of a permission: the log of "
        "changes has it counted, not one by one.",
    )
    client_limit: int = Field(
        default=100, ge=1, le=10_000, description="Machine clients that each customer may manage, at most."
    )
    clients_without_key: bool = Field(
        default=False,
        description="Whether machine clients may call without an API key, and get their tokens without one.",
    )
    revocation_rate: int = Field(
        default=60, ge=1, description="Access tokens that each client or manager may have revoked a minute, over time."
    )
    revocation_burst: int = Field(
        default=1_000,
        ge=1,
        description="Access tokens that each client or manager may have revoked at once. Each is kept until its end.",
    )
    auth_cache_max_staleness_seconds: float = Field(
        default=1.0,
        ge=1,
        le=60,
        description="Seconds for which a process goes on with what it knows of keys, tokens and managers while the "
        "database is slow to say whether it has changed: what is taken away holds everywhere within this time.",
    )
