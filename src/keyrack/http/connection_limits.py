"""In charge of how many clients are connected: in all and from each address; the longest idle one makes room."""

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

MOST = 8_192  # connections of a process, unless a setting says otherwise: each costs some memory, whatever the limit
FEWEST = 16
OWN_FILES = 64  # of a process: standard streams, listeners, modules, logs
OF_EACH_POOL = 4  # files for each connection of a pool: two pools where a worker runs too, and one to cancel on


class TrackedConnection(Protocol):
    """One connection."""

    def leave_room(self) -> None:
        """Close it: somebody else needs its place."""


class ConnectionLimiter:
    """The connections of one process: `max_connections`, and `max_per_address` from an address of no trusted proxy.

    A proxy's address stands for many clients, and bounds them itself. In IPv6 an address is its network of 64 bits,
    which is what one client has.
    """

    def __init__(self, max_connections: int, max_per_address: int, trusted: str) -> None:
        self.max_connections = max_connections
        self.max_per_address = max_per_address
        self._trusted = [part.strip() for part in trusted.split(",") if part.strip()]
        self._connections: dict[TrackedConnection, str] = {}
        self._count_by_address: defaultdict[str, int] = defaultdict(int)
        self._idle: dict[TrackedConnection, None] = {}  # the longest first
        self._idle_by_address: defaultdict[str, dict[TrackedConnection, None]] = defaultdict(dict)
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def enter(self, guest: TrackedConnection, host: str) -> ErrorCode | None:
        """Take it in as idle; where nobody idle can make room, why it is refused."""
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
        """It has no request under way, from now on."""
        if (address := self._connections.get(guest)) is not None:
            self._idle[guest] = None
            self._idle_by_address[address][guest] = None

    def busy(self, guest: TrackedConnection, address: str | None = None) -> None:
        """It has a request under way."""
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
        """Whom the connections of an address are counted for; "" for a proxy's and for what is no address."""
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
    """How many connections the process may have: as many as are set, or as its limit of open files leaves."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return settings.max_client_connections or MOST
    own = OWN_FILES + OF_EACH_POOL * settings.pool_size + min(settings.webhook_concurrency, limit // 4)
    return min(settings.max_client_connections or MOST, max(FEWEST, limit - own))
