"""Settings checks: names, public address, app address, metrics, keys and direct address."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from keyrack.changelog.transparency import checkpoint_keys
from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.core.settings import Settings, unknown
from keyrack.db.encryption import master_keys
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding


def examined(settings: Settings) -> list[Finding]:
    """Check the settings without the database."""
    return [
        *_names(), *_public_url(settings), *_drive_url(settings), *_metrics(settings), *_master_key(settings),
        *_checkpoint_key(settings), *_pooler(settings),
    ]  # fmt: skip


def _names() -> Iterator[Finding]:
    strange = unknown(Settings, os.environ)
    for name, meant in strange.items():
        action = f"Did you mean {meant}?" if meant else "Remove it. docs/settings.md lists all settings."
        yield warning("names", f"{name} is not a setting and has no effect.", action)
    if not strange:
        yield ok("names", "every KEYRACK_ variable in the environment is known")


def _public_url(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_url)
    if parts.scheme == "https":
        yield ok("public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}")
    elif not _is_local(parts.hostname or ""):
        yield failure(
            "public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}: keys, passwords and tokens are unencrypted.",
            "Put a proxy with TLS in front (deploy/nginx), and set KEYRACK_PUBLIC_URL to its https address.",
        )  # fmt: skip
    elif "public_url" not in settings.model_fields_set and settings.database_url is not None:
        yield warning(
            "public-url", f"KEYRACK_PUBLIC_URL is not set, so {settings.public_url} is the issuer of tokens.",
            "Set it to the https address at which clients reach the server.",
        )  # fmt: skip
    else:
        yield ok("public-url", f"KEYRACK_PUBLIC_URL is {settings.public_url}, an address of this machine")


def _drive_url(settings: Settings) -> Iterator[Finding]:
    address = settings.drive_url or settings.public_url
    parts = urlsplit(address)
    if parts.scheme == "https" or _is_local(parts.hostname or ""):
        yield ok("drive-url", f"the drivers' app is at {address}/drive/")
    else:
        yield failure(
            "drive-url",
            f"The drivers' app is at {address}/drive/, without https. Browsers then offer it neither Bluetooth nor a"
            " service worker, and its session cookie is unencrypted.",
            "Set KEYRACK_DRIVE_URL or KEYRACK_PUBLIC_URL to an https address of a proxy with TLS.",
        )


def _metrics(settings: Settings) -> Iterator[Finding]:
    if settings.metrics_at is None:
        yield ok("metrics", "the metrics endpoint is off")
    elif _is_inside(host := settings.metrics_at[0]):
        yield ok("metrics", f"the metrics endpoint is {settings.metrics}")
    else:
        yield warning(
            "metrics", f"KEYRACK_METRICS serves metrics at {host}, without authentication.",
            "Bind it to the loopback interface, or to an address in a network of operators.",
        )  # fmt: skip


def _master_key(settings: Settings) -> Iterator[Finding]:
    try:
        keys = master_keys.read(settings)
    except MasterKeyError as error:
        yield failure(
            "master-key",
            str(error),
            "Give this node the master key of the other nodes (docs/secrets.md, The master key).",
        )
        return
    if keys:
        yield ok("master-key", f"the master key is in {master_keys.where(settings)}")
    elif master_keys.is_ours(settings):
        yield ok("master-key", f"the master key will be created in {master_keys.where(settings)}")
    else:
        yield failure(
            "master-key", f"There is no master key: {master_keys.where(settings)} is missing.",
            "Create one with `keyrack master-key new`, and give the same one to every node.",
        )  # fmt: skip


def _checkpoint_key(settings: Settings) -> Iterator[Finding]:
    try:
        key = checkpoint_keys.read(settings)
    except CheckpointKeyError as error:
        yield failure(
            "checkpoint-key", str(error), "Give this node the key of the other workers (docs/checkpoints.md)."
        )
        return
    if key:
        yield ok("checkpoint-key", f"the checkpoint key is in {checkpoint_keys.path(settings)}")
    elif checkpoint_keys.is_ours(settings):
        yield ok("checkpoint-key", f"the checkpoint key will be created in {checkpoint_keys.path(settings)}")
    else:
        yield warning(
            "checkpoint-key", f"There is no checkpoint key: {checkpoint_keys.path(settings)} is missing.",
            "Create one with `keyrack audit keys`, and give the same one to every worker.",
        )  # fmt: skip


def _pooler(settings: Settings) -> Iterator[Finding]:
    if settings.database_direct_url is not None and settings.database_url is None:
        yield warning(
            "direct-url", "KEYRACK_DATABASE_DIRECT_URL has no effect, because KEYRACK_DATABASE_URL is not set.",
            "Set KEYRACK_DATABASE_URL, or remove both.",
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
        return True  # a name does not show who can reach it
    return address.is_private and not address.is_unspecified
