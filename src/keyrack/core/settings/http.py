"""In charge of settings of what clients may send and hold open, and how fast they have to be."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.value_errors import ValueForm


class Edge(BaseSettings):
    """Settings of what clients may send and hold open, and how fast they have to be."""

    section: ClassVar[str] = "edge"

    public_url: Annotated[
        str, ValueForm("an http or https address without a slash at its end, such as https://keyrack.example.com")
    ] = Field(
        default="http://127.0.0.1:8080",
        pattern=r"^https?://[^\s]+[^/\s]$",
        description="Address at which clients reach the server, without `/v3`: the issuer of tokens, and the start of "
        "every address in an answer.",
    )
    brand: Annotated[str, ValueForm("a word of letters, digits and hyphens that begins with a letter")] = Field(
        default="vendor",
        pattern=r"^[A-Za-z][A-Za-z0-9-]*$",
        description="Names the API key's header, `<brand>-API-Key`, and the product types `<brand> Box`, `<brand> IQ`.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Addresses or networks, comma-separated, whose `X-Forwarded-For` is believed.",
    )
    max_body_bytes: int = Field(
        default=1_000_000, ge=1_000, description="Bytes from which on a request's body is refused: 413."
    )
    max_header_bytes: int = Field(default=32_768, ge=1_024, description="Bytes of a request's head, at most: 431.")
    max_query_bytes: int = Field(default=8_192, ge=256, description="Bytes of a query string, at most: 414.")
    request_read_timeout_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Seconds in which a client must have sent its request's head, and its body: 408.",
    )
    max_client_connections: int | None = Field(
        default=None,
        ge=1,
        description="Connections of clients that each process holds, at most; the longest idle makes room, else 503. "
        "Without it 8192, or what the limit of open files leaves beside the process's own.",
    )
    max_client_connections_per_address: int = Field(
        default=200,
        ge=1,
        description="Connections from one address (IPv6: one network of 64 bits), except from `trusted_proxies`.",
    )
    load_shedding_lag_seconds: float = Field(
        default=0.05,
        gt=0,
        description="Seconds that a process may be late with all that it does: beyond, those who have the most "
        "requests under way are put off with 503, reads before writes, and four times beyond everybody.",
    )
    shutdown_timeout_seconds: int = Field(
        default=10,
        ge=1,
        le=600,
        description="Seconds that requests under way get when the process is told to stop; then they are cut off. "
        "Streams without end are ended at once. What stops the process from outside has to wait for longer.",
    )
    min_client_read_bytes_per_second: int = Field(
        default=32_768, ge=0, description="Bytes a second that a client must take of an answer that waits for it."
    )
    slow_client_seconds: float = Field(
        default=30.0, gt=0, description="Seconds over which this is measured; who takes less is cut off."
    )
    gzip_min_bytes: int = Field(
        default=1_000, ge=0, description="Bytes from which on an answer is compressed with gzip; 0 for never."
    )
    gzip_level: int = Field(default=1, ge=1, le=9, description="How hard gzip tries, from 1 to 9.")
    gzip_offload_min_bytes: int = Field(
        default=65_536, ge=1, description="Bytes from which on it does so in a thread, so that nobody waits for it."
    )
    gzip_threads: int = Field(default=2, ge=1, le=64, description="Such threads of each process, at most.")
    shutdown_delay_seconds: float = Field(
        default=0.0,
        ge=0,
        le=300,
        description="Seconds for which a server that is told to stop goes on as before, but for `GET /health/ready`: "
        "until load balancers have noticed and send it nothing any more.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins, comma-separated, whose pages may use the interface from a browser, such as "
        "`https://console.example.com`; `*` for all. Without any, browsers let another origin's page read nothing but "
        "`/openapi.json`.",
    )
    cors_max_age: int = Field(
        default=600, ge=0, le=86_400, description="Seconds for which browsers remember what such a page may send."
    )
    max_write_buffer_bytes: int = Field(
        default=32_000_000,
        ge=1_000_000,
        description="Bytes of answers that wait for clients in each process, whose memory has up to three times as "
        "much of them; above, who takes nothing for the longest time is cut off.",
    )
