"""In charge of the locks in the state directory: a keeper lives, a process uses the server. The system takes them back
however their holder ends."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from keyrack.db.embedded.binaries import EmbeddedServerError
from keyrack.db.embedded.layout import Layout, make_state


def join(layout: Layout) -> int | None:
    """Become a user of the server: the descriptor of the shared lock; None while a keeper ends, its last user gone."""
    make_state(layout.state)
    return _open(layout.users, fcntl.LOCK_SH)


def take_keeper(layout: Layout) -> int | None:
    """The descriptor of the keeper's lock; None when a keeper has it, or somebody who is about to start one."""
    return _open(layout.lock, fcntl.LOCK_EX)


def kept(layout: Layout) -> bool:
    """Whether a keeper lives."""
    lock = take_keeper(layout)
    if lock is not None:
        os.close(lock)
    return lock is None


@contextmanager
def is_sole_user(layout: Layout) -> Generator[None]:
    """Keep everybody from the server within the block: who wants to use it waits for the end.

    Raises EmbeddedServerError while somebody uses it.
    """
    make_state(layout.state)
    taken: list[int] = []
    try:
        for path in (layout.users, layout.lock):
            descriptor = _open(path, fcntl.LOCK_EX)
            if descriptor is None:
                raise EmbeddedServerError(
                    f"The database in {layout.data} is in use. Nothing was changed. Stop what uses it (`keyrack "
                    "serve`, `keyrack work` and other commands), then try again."
                )
            taken.append(descriptor)
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def others(layout: Layout, users: int) -> bool:
    """Give up the shared lock `users`, and look whether others have it. Who leaves looks when it is its turn, so that
    nobody takes such a look for a user. Raises OSError."""
    turn = os.open(layout.state, os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        # Nobody, or else users, or else the keeper, who ends
        has_others = not _locked(users, fcntl.LOCK_EX) and _locked(users, fcntl.LOCK_SH)
        fcntl.flock(users, fcntl.LOCK_UN)
        return has_others
    finally:
        os.close(turn)


def _open(path: Path, kind: int) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        closed = error.errno in (errno.EACCES, errno.EPERM)
        reason = "the state directory belongs to another OS user" if closed else error.strerror
        raise EmbeddedServerError(
            f"Cannot open {path}: {reason}. Run Keyrack as a user who may write there, or choose another state "
            "directory (KEYRACK_STATE)."
        ) from None
    if _locked(descriptor, kind):
        return descriptor
    os.close(descriptor)
    return None


def _locked(descriptor: int, kind: int) -> bool:
    """Lock it, unless others stand against that."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
