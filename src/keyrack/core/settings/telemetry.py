"""In charge of settings of what units deliver."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET
from keyrack.core.settings.value_errors import ValueForm


class Units(BaseSettings):
    """Settings of what units deliver."""

    section: ClassVar[str] = "units"

    max_ingest: int = Field(
        default=8_000_000,
        ge=1_000,
        description="Bytes, unpacked, from which on a delivery of telemetry or events is refused: 413.",
    )
    ingest_max_lines: int = Field(
        default=20_000,
        ge=1,
        description="Lines of a delivery, elements of its array, or members of its gzip file, at most: with more, 413 "
        "and nothing is stored.",
    )
    ingest_max_line_bytes: int = Field(
        default=65_536,
        ge=1_000,
        description="Bytes of one line of a delivery, at most: a longer one is refused, in an array the whole body.",
    )
    ingest_max_compression_ratio: int = Field(
        default=100,
        ge=1,
        description="How many times its size a gzip body may be when it is unpacked, beyond "
        "`KEYRACK_MAX_BODY_BYTES`: 413.",
    )
    ingest_max_reported_rejections: int = Field(
        default=1_000,
        ge=1,
        description="Refused lines that the answer to a delivery tells; of more it says how many they are.",
    )
    ingest_memory_bytes_per_key: int = Field(
        default=16_000_000,
        ge=1_000,
        description="Bytes of the deliveries under way of one device key, in each process: 503. "
        "A delivery alone is taken up to `KEYRACK_MAX_INGEST`.",
    )
    ingest_memory_bytes: int = Field(
        default=64_000_000, ge=1_000, description="Bytes of all deliveries under way, in each process: 503."
    )
    telemetry_retention_days: int = Field(
        default=400,
        ge=1,
        le=36_500,
        description="Days for which positions, odometer readings and series of telemetry are kept; a customer may have "
        "its own number.",
    )
    telemetry_stale_minutes: int = Field(
        default=15,
        ge=1,
        le=525_600,
        description="Minutes without news after which the console shows what a car does as stale.",
    )
    max_clock_skew_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Seconds by which a unit's clock may be ahead: readings beyond are refused, and events that are "
        "delivered with a device key.",
    )
    event_days: int = Field(
        default=90,
        ge=1,
        le=36_500,
        description="Days by which events that are delivered with a device key may lie back; older ones are refused.",
    )
    mqtt_url: Annotated[
        str, ValueForm("an mqtt or mqtts address, such as mqtts://user:password@broker.example.com:8883")
    ] = Field(
        default="mqtt://127.0.0.1:1883",
        pattern=r"^mqtts?://[^\s]+$",
        json_schema_extra=SECRET,
        description="The broker that `keyrack ingest-mqtt` reads from, as `mqtts://user:password@host:port`.",
    )
    mqtt_topic: Annotated[str, ValueForm("a topic with {customer} and, behind it, {unit}, and without + and #")] = (
        Field(
            default="keyrack/{customer}/{unit}/telemetry",
            pattern=r"^[^+#]*\{customer\}[^+#]*\{unit\}[^+#]*$",
            description="Topic of the units' messages: `{customer}` is the customer's id, `{unit}` the serial number.",
        )
    )
    mqtt_client: str = Field(
        default="keyrack",
        min_length=1,
        description="Client id at the broker, which keeps the messages of its session while it is away.",
    )
    mqtt_logged_rejections_per_minute: int = Field(
        default=60,
        ge=1,
        description="Refused samples that `keyrack ingest-mqtt` logs a minute; of the others it logs their number.",
    )
