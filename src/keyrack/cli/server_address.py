"""The address of the running server, for the links that commands print.

A command does not know the server's port, so a server on an embedded database writes its address into the state
directory. A server on an external database has no such directory; there, `KEYRACK_PUBLIC_URL` has the address.
"""

from __future__ import annotations

from contextlib import suppress

from keyrack.core import atomic_files
from keyrack.core.settings import Settings

FILE = "server.url"  # in the state directory


def publish(settings: Settings) -> None:
    """Write the address of this server, if the database is embedded.

    A failure, such as a full disk, does not stop the server: commands then use the default.
    """
    if settings.database_url is None:
        file = settings.state / FILE
        with suppress(OSError):
            atomic_files.write_temporary(file, f"{settings.public_url}\n".encode(), 0o600).replace(file)


def with_server_address(settings: Settings) -> Settings:
    """The settings with the newest server's address, unless `public_url` is set."""
    if "public_url" in settings.model_fields_set or settings.database_url is not None:
        return settings
    try:
        address = (settings.state / FILE).read_text("utf-8").strip()
    except (OSError, ValueError):
        return settings
    return settings.model_copy(update={"public_url": address}) if address else settings


def note_on_link(settings: Settings) -> str:
    """A line below a printed link that starts with the default address; empty if the address is known."""
    if "public_url" in settings.model_fields_set:
        return ""
    return (
        f"\nKEYRACK_PUBLIC_URL is not set, so the link starts with {settings.public_url}. "
        "Set it to the address of your server."
    )
