"""Settings of keys that open boxes without a network."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Keys(BaseSettings):
    """Settings of offline keys, phones, enrolments and box logs."""

    section: ClassVar[str] = "keys"
    title: ClassVar[str] = "Keys without a network"

    sdk_devices: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Maximum number of phones of one user of a customer. Above it, a new one gets 409.",
    )
    sdk_registrations_per_hour: int = Field(
        default=20,
        ge=1,
        description="Rate limit and burst of new phones of one user of a customer (per hour). Above it, requests get "
        "429.",
    )
    enrolments_per_hour_per_customer: int = Field(
        default=300,
        ge=1,
        description="Rate limit and burst of box enrolments of one customer (per hour). Above it, requests get 429.",
    )
    enrolments_per_hour_per_caller: int = Field(
        default=100,
        ge=1,
        description="Rate limit and burst of box enrolments by one manager or machine client for a customer (per "
        "hour). Above it, requests get 429.",
    )
    max_discarded_enrolments: int = Field(
        default=32,
        ge=1,
        le=1_000,
        description="Maximum number of discarded enrolments that are kept for one box: so many that the box has used, "
        "and so many that it has not. Above it, the oldest are deleted and cannot come back.",
    )
    sdk_keys: int = Field(
        default=200,
        ge=1,
        le=1_000,
        description="Maximum number of keys in one response of `GET /sdk/keys`. The response says if there are more.",
    )
    keys_per_assignment: int = Field(
        default=40,
        ge=4,
        le=1_000,
        description="Maximum number of valid keys of one assignment, for one epoch of a box and all phones of the "
        "user. Above it, no further key is issued. Each key, even a revoked one, has a slot in the status list of the "
        "box until it expires.",
    )
    offline_key_retention_days: int = Field(
        default=400,
        ge=60,
        description="Retention of issued keys and of box log entries (days). An opening that is reported later cannot "
        "be attributed to a user.",
    )
    boxlog_entries: int = Field(
        default=200,
        ge=1,
        le=2_000,
        description="Maximum number of box log entries in one `PUT /sdk/boxlog`. Above it, the request gets 400. The "
        "server verifies each entry.",
    )
    box_times_per_hour: int = Field(
        default=60,
        ge=1,
        description="Rate limit of signed times from `POST /sdk/time` for one box, by all phones together (per hour). "
        "Above it, requests get 429. Each visit with a network connection needs one.",
    )
    box_time_burst: int = Field(
        default=120, ge=1, description="Burst of signed times for one box, by all phones together."
    )
    box_times_per_hour_per_user: int = Field(
        default=30,
        ge=1,
        description="Rate limit of signed times for one box, by the phones of one user (per hour). Above it, requests "
        "get 429.",
    )
    box_time_burst_per_user: int = Field(
        default=60, ge=1, description="Burst of signed times for one box, by the phones of one user."
    )
    max_box_reports: int = Field(
        default=100,
        ge=1,
        description="Maximum number of reports of each kind (forks, breaks and others) that are kept for each epoch of"
        " a box log. For forgeries, it holds for each user who delivers them. Further reports are only counted.",
    )
    simulated_radio_socket: Path | None = Field(
        default=None,
        description="Unix socket of simulated boxes, which `keyrack demo` sets. The drivers' app then opens these boxes"
        " in place of real ones. Never set it for a server with real boxes.",
    )
