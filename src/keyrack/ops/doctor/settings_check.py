"""In charge of settings that do not fit one another, or the world that they are in."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from keyrack.changelog.transparency import checkpoint_keys
from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.core.settings import Settings, rename_notes, unknown
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding


def examined(settings: Settings) -> list[Finding]:
    """What the settings alone tell."""
    return [
        *_names(), *_public_url(settings), *_metrics(settings), *_master_key(settings), *_checkpoint_key(settings),
        *_pooler(settings),
    ]  # fmt: skip


def _names() -> Iterator[Finding]:
    strange = unknown(Settings, os.environ)
    for name, meant in strange.items():
        action = f"Did you mean {meant}?" if meant else "Remove it; docs/settings.md has all that there are."
        yield warning("names", f"{name} is in the environment, and no setting has that name: it does nothing.", action)
    notes = rename_notes(Settings)
    for note in notes:
        yield warning("names", note, "Change it: docs/upgrading-to-0.3.md lists every renamed and removed setting.")
    if not strange and not notes:
        yield ok("names", "every KEYRACK_ name in the environment is a setting")


def _public_url(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_url)
    if parts.scheme == "https":
        yield ok("public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}")
    elif not _is_local(parts.hostname or ""):
        yield failure(
            "public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}: keys, passwords and tokens travel readable.",
            "Put a proxy with TLS in front (deploy/nginx), and name its https address.",
        )  # fmt: skip
    elif "public_url" not in settings.model_fields_set and settings.database_url is not None:
        yield warning(
            "public-url", f"KEYRACK_PUBLIC_URL is not set: the issuer of tokens is {settings.public_url}.",
            "Set it to the https address at which clients reach the server.",
        )  # fmt: skip
    else:
        yield ok("public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}, on this machine alone")


def _metrics(settings: Settings) -> Iterator[Finding]:
    if settings.metrics_at is None:
        yield ok("metrics", "no port shows metrics")
    elif _is_inside(host := settings.metrics_at[0]):
        yield ok("metrics", f"metrics are shown at {settings.metrics}")
    else:
        yield warning(
            "metrics", f"KEYRACK_METRICS shows metrics at {host} to whoever reaches it: it asks for no key.",
            "Name the loopback interface, or the address in a network of operators.",
        )  # fmt: skip


def _master_key(settings: Settings) -> Iterator[Finding]:
    try:
        keys = master_keys.read(settings)
    except MasterKeyError as error:
        yield failure("master-key", str(error), "Give this node the master key of the others: docs/secrets.md.")
        return
    if keys:
        yield ok("master-key", f"the master key is in {master_keys.where(settings)}")
    elif master_keys.is_ours(settings):
        yield ok("master-key", f"the master key will be made in {master_keys.where(settings)}")
    else:
        yield failure(
            "master-key", f"There is no master key: {master_keys.where(settings)} is missing.",
            "`keyrack master-key new` makes one; give the same one to every node.",
        )  # fmt: skip


def _checkpoint_key(settings: Settings) -> Iterator[Finding]:
    try:
        key = checkpoint_keys.read(settings)
    except CheckpointKeyError as error:
        yield failure("checkpoint-key", str(error), "Give this node the key of the other workers: docs/checkpoints.md.")
        return
    if key:
        yield ok("checkpoint-key", f"the key of checkpoints is in {checkpoint_keys.path(settings)}")
    elif checkpoint_keys.is_ours(settings):
        yield ok("checkpoint-key", f"the key of checkpoints will be made in {checkpoint_keys.path(settings)}")
    else:
        yield warning(
            "checkpoint-key", f"No key of checkpoints is here: {checkpoint_keys.path(settings)} is missing.",
            "A worker needs it: `keyrack audit keys` makes one; give the same one to every worker.",
        )  # fmt: skip


def _pooler(settings: Settings) -> Iterator[Finding]:
    if settings.database_direct_url is not None and settings.database_url is None:
        yield warning(
            "direct-url", "KEYRACK_DATABASE_DIRECT_URL is set, and KEYRACK_DATABASE_URL is not: it does nothing.",
            "Name the database, or leave both out.",
        )  # fmt: skip


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_inside(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return True  # a name says nothing about who reaches it
    return address.is_private and not address.is_unspecified
