"""Settings of rate limits, machine clients and the authentication cache."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Callers(BaseSettings):
    """Settings of rate limits, machine clients and the authentication cache."""

    section: ClassVar[str] = "callers"
    title: ClassVar[str] = "Callers and rate limits"

    assignment_rate: int = Field(
        default=600,
        ge=1,
        description="Rate limit of new assignments of one customer (per minute). Each `PUT /assignments` and each "
        "creation in a batch counts. Above it, requests get 429.",
    )
    assignment_burst: int = Field(
        default=100,
        ge=1,
        description="Burst of new assignments of one customer. A batch is accepted if any quota is left; the excess is"
        " deducted from later quota.",
    )
    login_rate_per_username_and_address: int = Field(
        default=12,
        ge=1,
        description="Rate limit of failed logins for one user name from one address (per minute). Above it, logins get"
        " 429. Requests for password links from one address have a limit of the same size.",
    )
    login_burst_per_username_and_address: int = Field(
        default=10, ge=1, description="Burst of failed logins for one user name from one address."
    )
    login_rate_per_address: int = Field(
        default=120,
        ge=1,
        description="Rate limit of failed logins from one address (per minute). Above it, logins get 429. An IPv6 "
        "address counts as its /64; a /56 has four times the limit, a /48 sixteen times. Passkey challenges have a "
        "limit of the same size.",
    )
    login_burst_per_address: int = Field(default=100, ge=1, description="Burst of failed logins from one address.")
    login_rate_per_username: int = Field(
        default=240,
        ge=1,
        description="Rate limit of failed logins for one user name, from all addresses together (per minute). Above "
        "it, logins get 429. It bounds how fast many computers guess one password, and what they need to lock the user"
        " out.",
    )
    login_burst_per_username: int = Field(
        default=1_000, ge=1, description="Burst of failed logins for one user name, from all addresses together."
    )
    user_lookups_per_hour: int = Field(
        default=1_000,
        ge=1,
        description="Rate limit of users that one customer assigns to itself by e-mail address (per hour). Each `PUT "
        "/users/assignments/customers` with an address counts. Above it, requests get 429.",
    )
    user_lookup_burst: int = Field(
        default=1_000, ge=1, description="Burst of users that one customer assigns to itself by e-mail address."
    )
    denial_log_interval_seconds: float = Field(
        default=60.0,
        gt=0,
        le=3_600,
        description="Interval at which a process writes denied permissions to the change log (seconds). It writes "
        "counts, not single requests.",
    )
    client_limit: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Maximum number of machine clients of one customer. Above it, a new one gets 409.",
    )
    clients_without_key: bool = Field(
        default=False,
        description="`true` lets machine clients get tokens and call the API without an API key.",
    )
    revocation_rate: int = Field(
        default=60,
        ge=1,
        description="Rate limit of access tokens that one client or manager revokes (per minute). Above it, requests "
        "get 429.",
    )
    revocation_burst: int = Field(
        default=1_000,
        ge=1,
        description="Burst of access tokens that one client or manager revokes. Each is stored until it expires.",
    )
    auth_cache_max_staleness_seconds: float = Field(
        default=1.0,
        ge=1,
        le=60,
        description="Maximum staleness of cached keys, tokens and managers (seconds). A revocation takes effect in "
        "every process within this time.",
    )
    cell_miss_rate_per_address: int = Field(
        default=600,
        gt=0,
        description="Credentials per minute from one address that no cell has. Beyond it, unknown credentials get 429. "
        "Without cells, it has no effect.",
    )
