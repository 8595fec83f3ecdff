"""Profiles of API callers: the login at a server, in a file that only its owner can read.

A profile has the server's address, the API key, the customer and the token. It stores no
password, but may store the path of a password file.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from keyrack.cli.output import CommandFailed
from keyrack.core.api_client.credentials import StoredToken

DEFAULT = "default"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ENDING = ".json"


@dataclass(frozen=True, slots=True)
class Profile:
    """The server, the credentials and the customer of a caller."""

    url: str
    username: str
    api_key: str = field(repr=False)
    brand: str = "vendor"
    customer: int | None = None
    password_file: str | None = None
    token: StoredToken | None = None


def directory() -> Path:
    """The profile directory of this user (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(given) if given.startswith("/") else Path.home() / ".config"
    return home / "keyrack" / "profiles"


def names() -> list[str]:
    """The names of the existing profiles."""
    with_ending = sorted(directory().glob(f"*{ENDING}")) if directory().is_dir() else []
    return [path.name.removesuffix(ENDING) for path in with_ending]


def path_of(name: str) -> Path:
    """The file of a profile. Raises `CommandFailed` if the name is invalid."""
    if not NAME.fullmatch(name):
        raise CommandFailed(
            f"{name!r} is not a valid profile name. Use at most 64 letters, digits, dots, underscores and hyphens."
        )
    return directory() / (name + ENDING)


def read(name: str) -> Profile:
    """The profile. Raises `CommandFailed` if it is missing, damaged or readable by other users."""
    path = path_of(name)
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise CommandFailed(f"{path} contains a token, and other users can read it. Run: chmod 600 {path}")
            members: dict[str, Any] = json.load(file)
        token = members.pop("token")
        return Profile(**members, token=None if token is None else StoredToken(**token))
    except FileNotFoundError:
        there = ", ".join(names())
        hint = f" Existing profiles: {there}." if there else ""
        how = "keyrack login" if name == DEFAULT else f"keyrack login --profile {name}"
        raise CommandFailed(f"Profile {name} is not logged in.{hint} Log in first: {how}") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CommandFailed(f"{path} is damaged. Log in again: keyrack login --profile {name}") from None


def write(name: str, profile: Profile) -> Path:
    """Save a profile atomically, readable only by its owner. Raises `CommandFailed`."""
    path = path_of(name)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(asdict(profile), file)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
    return path


def remove(name: str) -> bool:
    """Delete a profile, and return whether it existed. Raises `CommandFailed`."""
    try:
        path_of(name).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CommandFailed(f"{path_of(name)} cannot be removed: {error.strerror}.") from None
    return True
