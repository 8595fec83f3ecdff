"""The push services that Web Push may reach: patterns of hosts."""

from __future__ import annotations

import re

HOST = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
PATTERN = re.compile(rf"(?:\*\.)?{HOST}(?::[0-9]{{1,5}})?")
# Strict, so that no other parser of URLs finds another host in it
ENDPOINT = re.compile(rf"https://(?P<host>{HOST})(?::(?P<port>[0-9]{{1,5}}))?/[!\"$-\[\]-~]*")
HTTPS = "443"


def push_services(text: str) -> tuple[str, ...]:
    """The hosts of a comma-separated list, each with its port. `*.` stands for any subdomain.

    Raises `ValueError` if one is malformed.

    >>> push_services("*.push.example.com, push.example.org:8443")
    ('*.push.example.com:443', 'push.example.org:8443')
    """
    given = [part.strip() for part in text.lower().split(",") if part.strip()]
    for host in given:
        if not PATTERN.fullmatch(host):
            raise ValueError(f"{host!r} is not a host. Write, for example, push.example.com or *.push.example.com")
    return tuple(host if ":" in host else f"{host}:{HTTPS}" for host in given)


def is_allowed(endpoint: str, services: tuple[str, ...]) -> bool:
    """Whether a URL uses https and leads to one of the hosts.

    >>> is_allowed("https://eu.push.example.com/1", ("*.push.example.com:443",))
    True
    """
    url = ENDPOINT.fullmatch(endpoint)
    if url is None:
        return False
    place = f"{url['host']}:{url['port'] or HTTPS}"
    return any(place.endswith(host[1:]) if host.startswith("*.") else place == host for host in services)
