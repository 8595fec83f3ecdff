"""Addresses for webhooks: public ones, and those that the operator allows.

The checked address is the dialled one, because the answer of a name server may change between two lookups.
"""

from __future__ import annotations

import errno
import ipaddress
import socket

from keyrack.core.settings import Settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressForbidden(OSError):
    """The address is not public, and its network is not allowed."""


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a comma-separated text. Raises `ValueError`."""
    return tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


# Ranges that `ipaddress` of some Python versions takes for public, from IANA's special-purpose address registries (RFC
# 6890): protocol assignments (with Oracle's metadata service); AS112 and AMT, whose nearest server answers, maybe an
# internal one; relays of 6to4; Azure's metadata service. Then protocol assignments with Teredo, documentation, 6to4,
# AS112 again
SPECIAL = networks(
    "192.0.0.0/24, 192.31.196.0/24, 192.52.193.0/24, 192.175.48.0/24, 192.88.99.0/24, 168.63.129.16,"
    "2001::/23, 2001:db8::/32, 2002::/16, 2620:4f:8000::/48, 3fff::/20"
)
UNICAST = ipaddress.ip_network("2000::/3")  # of IPv6, nothing else is public (RFC 4291, section 2.4)
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # IPv4 as IPv6-only networks see it (RFC 6052)
NOBODYS = {4: ipaddress.ip_address("198.51.100.1"), 6: ipaddress.ip_address("2001:db8::1")}  # for documentation only


class Guard:
    """The operator's rules for addresses. `allowed` replaces the webhooks' networks."""

    def __init__(self, settings: Settings, allowed: str | None = None) -> None:
        self._allowed = networks(settings.webhook_allowed_networks if allowed is None else allowed)
        self._denied = networks(settings.webhook_denied_networks)

    def may_dial(self, text: str) -> bool:
        """Whether a webhook may connect to an address.

        It may if the address is public or in an allowed network, and in no denied one.
        """
        address = _address(text)
        wrapped = _wrapped(address)
        if _among(address, self._denied) or _among(wrapped, self._denied):
            return False
        return _among(address, self._allowed) or _among(wrapped, self._allowed) or _is_open(address, wrapped)

    def is_public(self, text: str) -> bool:
        """Whether an address is public, apart from allowed networks.

        Answers from there are no secret.
        """
        address = _address(text)
        wrapped = _wrapped(address)
        return not _among(address, self._denied) and not _among(wrapped, self._denied) and _is_open(address, wrapped)


def is_own(address: Address) -> bool:
    """Whether this machine has the address: no other can be bound.

    It is checked each time, since addresses come and go.
    """
    if not _can_bind(address):
        return False
    return not _can_bind(NOBODYS[address.version]) or _is_reached_from_itself(address)


def _can_bind(address: Address) -> bool:
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
            return True
    except OSError as error:  # without free sockets this is unknown, and the address counts as the machine's own
        return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def _is_reached_from_itself(address: Address) -> bool:
    """The same check if any address can be bound (`net.ipv4.ip_nonlocal_bind`).

    It misses further addresses of an interface.
    """
    with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:  # connecting it sends nothing
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False
        return probe.getsockname()[0] == str(address)


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _address(text: str) -> Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _wrapped(address: Address) -> Address:
    """The IPv4 address that another one leads to, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    return address if address.teredo is None else address.teredo[1]


def _among(address: Address, among: tuple[Network, ...]) -> bool:
    return any(address in network for network in among)


def _is_open(address: Address, wrapped: Address) -> bool:
    if address not in NAT64 and not _is_global(address):
        return False
    return _is_global(wrapped) and not is_own(wrapped) and not (address in NAT64 and is_own(address))


def _is_global(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in UNICAST:
        return False
    strange = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not strange and not _among(address, SPECIAL)
