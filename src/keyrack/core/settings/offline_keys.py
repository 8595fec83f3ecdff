"""In charge of settings of keys that open boxes without a network."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Keys(BaseSettings):
    """Settings of keys that open boxes without a network."""

    section: ClassVar[str] = "keys"

    sdk_devices: int = Field(default=10, ge=1, le=1_000, description="Phones that each user of a customer may have.")
    sdk_registrations_per_hour: int = Field(
        default=20,
        ge=1,
        description="New phones that each user of a customer may register an hour, over time and at once.",
    )
    enrolments_per_hour_per_customer: int = Field(
        default=300, ge=1, description="Enrolments of boxes of each customer an hour, over time and at once."
    )
    enrolments_per_hour_per_caller: int = Field(
        default=100,
        ge=1,
        description="Enrolments of boxes of each manager or machine client for a customer an hour, over time and at "
        "once.",
    )
    max_discarded_enrolments: int = Field(
        default=32,
        ge=1,
        le=1_000,
        description="Discarded enrolments that are kept for each box: so many with an entry of the box, and so many "
        "without. The oldest ones are deleted, and do not come back.",
    )
    sdk_keys: int = Field(
        default=200,
        ge=1,
        le=1_000,
        description="Keys that one answer of `GET /sdk/keys` has at most; it says if there are more.",
    )
    keys_per_assignment: int = Field(
        default=40,
        ge=4,
        le=1_000,
        description="Keys of one assignment for one epoch of a box, of all phones of its user, that may open at the "
        "same time. Each key, revoked or not, has a place in the status list of the box until it expires.",
    )
    offline_key_retention_days: int = Field(
        default=400,
        ge=60,
        description="Days for which issued keys and entries of the logs of boxes are kept. Of an opening that comes "
        "home later nobody can say whose it was.",
    )
    boxlog_entries: int = Field(
        default=200,
        ge=1,
        le=2_000,
        description="Entries of the logs of boxes that one `PUT /sdk/boxlog` may bring. Each is verified.",
    )
    box_times_per_hour: int = Field(
        default=60,
        ge=1,
        description="Signed times an hour that all phones together may fetch for each box by `POST /sdk/time`, over "
        "time. A visit with a network needs one.",
    )
    box_time_burst: int = Field(
        default=120, ge=1, description="Signed times that all phones together may fetch for each box at once."
    )
    box_times_per_hour_per_user: int = Field(
        default=30,
        ge=1,
        description="Signed times an hour that the phones of one user may fetch for each box, over time.",
    )
    box_time_burst_per_user: int = Field(
        default=60, ge=1, description="Signed times that the phones of one user may fetch for each box at once."
    )
    max_box_reports: int = Field(
        default=100,
        ge=1,
        description="Reports of each kind on the log of a box that are kept for each of its epochs: forks, breaks and "
        "others. Forgeries have this bound for each user who brings them. Reports beyond are counted.",
    )
