"""Limits of client connections, in total and per address. The longest idle one makes room."""

from __future__ import annotations

import ipaddress
import resource
from collections import defaultdict
from typing import Protocol

from keyrack.api.rate_limits import network
from keyrack.core.error_codes import FULL, FULL_OF_ONE, ErrorCode
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import CONNECTIONS, LIMITS
from keyrack.core.settings import Settings

MOST = 8_192  # connections of a process by default: each one uses memory
FEWEST = 16
OWN_FILES = 64  # files of a process: standard streams, listeners, modules, logs
OF_EACH_POOL = 4  # files per connection of a pool: two pools if a worker runs too, and one file to cancel


class TrackedConnection(Protocol):
    """One client connection."""

    def leave_room(self) -> None:
        """Close the connection to make room for another one."""


class ConnectionLimiter:
    """The connections of one process: `max_connections` in total, `max_per_address` per address.

    Addresses of trusted proxies have only the total limit: such an address represents many clients, and the proxy
    limits them itself. An IPv6 address counts as its 64-bit network, which is the allocation of one client.
    """

    def __init__(self, max_connections: int, max_per_address: int, trusted: str) -> None:
        self.max_connections = max_connections
        self.max_per_address = max_per_address
        self._trusted = [part.strip() for part in trusted.split(",") if part.strip()]
        self._connections: dict[TrackedConnection, str] = {}
        self._count_by_address: defaultdict[str, int] = defaultdict(int)
        self._idle: dict[TrackedConnection, None] = {}  # the longest idle first
        self._idle_by_address: defaultdict[str, dict[TrackedConnection, None]] = defaultdict(dict)
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def enter(self, guest: TrackedConnection, host: str) -> ErrorCode | None:
        """Add the connection as idle, or return the error if no idle connection can make room."""
        address = self._counted_address(host)
        if (
            address
            and self._count_by_address[address] >= self.max_per_address
            and not self._make_room(self._idle_by_address[address], address, self.max_per_address)
        ):
            return FULL_OF_ONE
        if len(self._connections) >= self.max_connections and not self._make_room(self._idle, "", self.max_connections):
            return FULL
        self._connections[guest] = address
        self._count_by_address[address] += 1
        CONNECTIONS.add()
        self.idle(guest)
        return None

    def leave(self, guest: TrackedConnection) -> None:
        address = self._connections.pop(guest, None)
        if address is None:
            return
        CONNECTIONS.add(by=-1)
        self.busy(guest, address)
        self._count_by_address[address] -= 1
        if not self._count_by_address[address]:
            del self._count_by_address[address]
            self._idle_by_address.pop(address, None)

    def idle(self, guest: TrackedConnection) -> None:
        """The connection has no active request any more."""
        if (address := self._connections.get(guest)) is not None:
            self._idle[guest] = None
            self._idle_by_address[address][guest] = None

    def busy(self, guest: TrackedConnection, address: str | None = None) -> None:
        """The connection has an active request."""
        if self._idle.pop(guest, self) is None:
            self._idle_by_address[address if address is not None else self._connections[guest]].pop(guest, None)

    def _make_room(self, idle: dict[TrackedConnection, None], address: str, bound: int) -> bool:
        longest_idle = next(iter(idle), None)
        LIMITS.add("connections-of-address" if address else "connections")
        self._log.warning(
            "connection limit reached",
            address=address or "any",
            limit=bound,
            idle=len(idle),
            closed=longest_idle is not None,
        )
        if longest_idle is None:
            return False
        self.leave(longest_idle)
        longest_idle.leave_room()
        return True

    def _counted_address(self, host: str) -> str:
        """The address or network that a connection is counted for; "" for trusted proxies and invalid addresses."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return ""
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return "" if any(_means(part, address) for part in self._trusted) else network(host)


def _means(part: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if part == "*":
        return True
    try:
        return address in ipaddress.ip_network(part, strict=False)
    except ValueError:
        return False


def max_connections(settings: Settings) -> int:
    """The maximum number of connections: the setting, within the limit of open files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return settings.max_client_connections or MOST
    own = OWN_FILES + OF_EACH_POOL * settings.pool_size + min(settings.webhook_concurrency, limit // 4)
    return min(settings.max_client_connections or MOST, max(FEWEST, limit - own))
