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
    """The connections of one process: `most` of them, `of_one` from each address that is no trusted proxy's.

    A proxy's address stands for many clients, and bounds them itself. In IPv6 an address is its network of 64 bits,
    which is what one client has.
    """

    def __init__(self, most: int, of_one: int, trusted: str) -> None:
        self.most = most
        self.of_one = of_one
        self._trusted = [part.strip() for part in trusted.split(",") if part.strip()]
        self._guests: dict[TrackedConnection, str] = {}
        self._of: defaultdict[str, int] = defaultdict(int)
        self._idle: dict[TrackedConnection, None] = {}  # the longest first
        self._idle_of: defaultdict[str, dict[TrackedConnection, None]] = defaultdict(dict)
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def enter(self, guest: TrackedConnection, host: str) -> ErrorCode | None:
        """Take it in as idle; where nobody idle can make room, why it is refused."""
        who = self._who(host)
        if who and self._of[who] >= self.of_one and not self._make_room(self._idle_of[who], who, self.of_one):
            return FULL_OF_ONE
        if len(self._guests) >= self.most and not self._make_room(self._idle, "", self.most):
            return FULL
        self._guests[guest] = who
        self._of[who] += 1
        CONNECTIONS.add()
        self.idle(guest)
        return None

    def leave(self, guest: TrackedConnection) -> None:
        who = self._guests.pop(guest, None)
        if who is None:
            return
        CONNECTIONS.add(by=-1)
        self.busy(guest, who)
        self._of[who] -= 1
        if not self._of[who]:
            del self._of[who]
            self._idle_of.pop(who, None)

    def idle(self, guest: TrackedConnection) -> None:
        """It has no request under way, from now on."""
        if (who := self._guests.get(guest)) is not None:
            self._idle[guest] = None
            self._idle_of[who][guest] = None

    def busy(self, guest: TrackedConnection, who: str | None = None) -> None:
        """It has a request under way."""
        if self._idle.pop(guest, self) is None:
            self._idle_of[who if who is not None else self._guests[guest]].pop(guest, None)

    def _make_room(self, idle: dict[TrackedConnection, None], who: str, bound: int) -> bool:
        longest = next(iter(idle), None)
        LIMITS.add("connections-of-address" if who else "connections")
        self._log.warning(
            "connection limit reached",
            address=who or "any",
            limit=bound,
            idle=len(idle),
            closed=longest is not None,
        )
        if longest is None:
            return False
        self.leave(longest)
        longest.leave_room()
        return True

    def _who(self, host: str) -> str:
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
