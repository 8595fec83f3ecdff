"""Settings of telemetry, events and MQTT."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET
from keyrack.core.settings.value_errors import ValueForm


class Units(BaseSettings):
    """Settings of telemetry, events and MQTT."""

    section: ClassVar[str] = "units"
    title: ClassVar[str] = "Telemetry and MQTT"

    max_ingest: int = Field(
        default=8_000_000,
        ge=1_000,
        description="Size limit of a delivery of telemetry or events after decompression (bytes). A delivery that "
        "reaches it gets 413.",
    )
    ingest_max_lines: int = Field(
        default=20_000,
        ge=1,
        description="Maximum number of lines of a delivery, of elements of its array, or of members of its gzip file. "
        "Above it, the delivery gets 413, and nothing is stored.",
    )
    ingest_max_line_bytes: int = Field(
        default=65_536,
        ge=1_000,
        description="Maximum size of one line of a delivery (bytes). A longer line is rejected; in an array, the whole"
        " body is rejected.",
    )
    ingest_max_compression_ratio: int = Field(
        default=100,
        ge=1,
        description="Maximum compression ratio of a gzip body that is larger than `KEYRACK_MAX_BODY_BYTES` after "
        "decompression. Above it, the delivery gets 413.",
    )
    ingest_max_reported_rejections: int = Field(
        default=1_000,
        ge=1,
        description="Maximum number of rejected lines that the response to a delivery lists. Further ones are only "
        "counted.",
    )
    ingest_memory_bytes_per_key: int = Field(
        default=16_000_000,
        ge=1_000,
        description="Maximum memory of the deliveries in progress of one device key, in each process (bytes). Above "
        "it, deliveries get 503. A single delivery may use `KEYRACK_MAX_INGEST`.",
    )
    ingest_memory_bytes: int = Field(
        default=64_000_000,
        ge=1_000,
        description="Maximum memory of all deliveries in progress, in each process (bytes). Above it, deliveries get "
        "503.",
    )
    telemetry_retention_days: int = Field(
        default=400,
        ge=1,
        le=36_500,
        description="Retention of positions, odometer readings and telemetry series (days). A customer may have a "
        "value of its own.",
    )
    telemetry_stale_minutes: int = Field(
        default=15,
        ge=1,
        le=525_600,
        description="Time without new readings after which the console shows the state of a car as stale (minutes).",
    )
    max_clock_skew_seconds: float = Field(
        default=300.0,
        ge=0,
        description="Maximum time by which the clock of a unit may be ahead (seconds). Later readings, and later "
        "events that are delivered with a device key, are rejected. In strict mode, every later event is rejected, and "
        "so is an assignment that has ended for longer.",
    )
    event_days: int = Field(
        default=90,
        ge=1,
        le=36_500,
        description="Maximum age of events that are delivered with a device key (days). Older events are rejected.",
    )
    mqtt_url: Annotated[
        str, ValueForm("an mqtt or mqtts address, such as mqtts://user:password@broker.example.com:8883")
    ] = Field(
        default="mqtt://127.0.0.1:1883",
        pattern=r"^mqtts?://[^\s]+$",
        json_schema_extra=SECRET,
        description="MQTT broker that `keyrack ingest-mqtt` reads from, for example `mqtts://user:password@host:port`.",
    )
    mqtt_topic: Annotated[str, ValueForm("a topic with {customer}, followed by {unit}, and without + and #")] = Field(
        default="keyrack/{customer}/{unit}/telemetry",
        pattern=r"^[^+#]*\{customer\}[^+#]*\{unit\}[^+#]*$",
        description="MQTT topic of the units' messages. `{customer}` is the customer's id, `{unit}` the serial number.",
    )
    mqtt_client: str = Field(
        default="keyrack",
        min_length=1,
        description="Client id at the MQTT broker. The broker keeps messages of this session while `keyrack "
        "ingest-mqtt` is disconnected.",
    )
    mqtt_logged_rejections_per_minute: int = Field(
        default=60,
        ge=1,
        description="Maximum number of rejected samples that `keyrack ingest-mqtt` logs in a minute. Further ones are "
        "only counted.",
    )
