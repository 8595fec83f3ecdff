"""Settings of the HTTP server."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings

from keyrack.core.settings.value_errors import ValueForm


class Edge(BaseSettings):
    """Settings of the HTTP server: limits, timeouts, compression, CORS and shutdown."""

    section: ClassVar[str] = "edge"
    title: ClassVar[str] = "HTTP"

    public_url: Annotated[
        str, ValueForm("an http or https address without a final slash, such as https://keyrack.example.com")
    ] = Field(
        default="http://127.0.0.1:8080",
        pattern=r"^https?://[^\s]+[^/\s]$",
        description="Address at which clients reach the server, without `/v3`. It is the issuer of tokens, and every "
        "address in a response begins with it.",
    )
    brand: Annotated[str, ValueForm("a word of letters, digits and hyphens that begins with a letter")] = Field(
        default="vendor",
        pattern=r"^[A-Za-z][A-Za-z0-9-]*$",
        description="Brand in the API key header, `<brand>-API-Key`, and in the product types `<brand> Box` and "
        "`<brand> IQ`.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Proxies whose `X-Forwarded-For` header is trusted: comma-separated addresses or networks, or `*` "
        "for all.",
    )
    max_body_bytes: int = Field(
        default=1_000_000,
        ge=1_000,
        description="Size limit of a request body (bytes). A body that reaches it gets 413.",
    )
    max_header_bytes: int = Field(
        default=32_768,
        ge=1_024,
        description="Maximum size of a request's head (bytes). Above it, the request gets 431.",
    )
    max_query_bytes: int = Field(
        default=8_192, ge=256, description="Maximum size of a query string (bytes). Above it, the request gets 414."
    )
    request_read_timeout_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Maximum time for a client to send the head of its request, and then the body (seconds). After it,"
        " the request gets 408.",
    )
    max_client_connections: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of client connections in each process. Above it, the connection that is idle "
        "longest is closed; if none is idle, a new one gets 503. The limit of open files can lower it. Default: 8192.",
    )
    max_client_connections_per_address: int = Field(
        default=200,
        ge=1,
        description="Maximum number of connections from one address (IPv6: one /64 network) in each process, except "
        "from `KEYRACK_TRUSTED_PROXIES`. Above it, the connection of that address that is idle longest is closed; if "
        "none is idle, a new one gets 503.",
    )
    load_shedding_lag_seconds: float = Field(
        default=0.05,
        gt=0,
        description="Event-loop lag above which a process sheds load, if the lag lasts (seconds). The customers with "
        "the most requests in progress get 503: their reads first, their writes above twice the lag. Above four times "
        "the lag, all requests except health checks and sign-outs get 503.",
    )
    shutdown_timeout_seconds: int = Field(
        default=10,
        ge=1,
        le=600,
        description="Time that requests in progress have to finish at shutdown (seconds). Then their connections are "
        "closed. Streams end at once. The service manager must wait longer than this plus "
        "`KEYRACK_SHUTDOWN_DELAY_SECONDS`.",
    )
    min_client_read_bytes_per_second: int = Field(
        default=32_768,
        ge=0,
        description="Minimum rate at which a client must read a response that waits for it (bytes per second). A "
        "client that is slower over `KEYRACK_SLOW_CLIENT_SECONDS` is disconnected.",
    )
    slow_client_seconds: float = Field(
        default=30.0, gt=0, description="Time over which the read rate of a client is measured (seconds)."
    )
    gzip_min_bytes: int = Field(
        default=1_000,
        ge=0,
        description="Minimum size of a response that is compressed with gzip (bytes). 0 disables compression.",
    )
    gzip_level: int = Field(
        default=1, ge=1, le=9, description="Compression level of gzip, from 1 (fastest) to 9 (smallest)."
    )
    gzip_offload_min_bytes: int = Field(
        default=65_536,
        ge=1,
        description="Minimum size of a response that a thread compresses (bytes), so that other requests do not wait.",
    )
    gzip_threads: int = Field(
        default=2, ge=1, le=64, description="Maximum number of compression threads in each process."
    )
    shutdown_delay_seconds: float = Field(
        default=0.0,
        ge=0,
        le=300,
        description="Time for which a server continues to serve after the stop signal (seconds). Meanwhile `GET "
        "/health/ready` fails, so that load balancers stop sending requests.",
    )
    cors_origins: str = Field(
        default="",
        description="Origins whose pages may call the API from a browser: comma-separated, for example "
        "`https://console.example.com`, or `*` for all. Without any, pages of other origins can only read "
        "`/openapi.json`.",
    )
    cors_max_age: int = Field(
        default=600,
        ge=0,
        le=86_400,
        description="Time for which browsers cache the answer to a CORS preflight request (seconds).",
    )
    max_write_buffer_bytes: int = Field(
        default=32_000_000,
        ge=1_000_000,
        description="Maximum amount of response data that clients have not read, in each process (bytes). Above it, "
        "the client that has been behind longest is disconnected. The process may need three times as much memory.",
    )
