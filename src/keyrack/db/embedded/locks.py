"""The locks in the state directory: one for a live keeper, one for the server's users.

The OS releases them however their process ends.
"""

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
    """Join the users of the server. Returns the descriptor of the shared lock; None while a keeper ends."""
    make_state(layout.state)
    return _open(layout.users, fcntl.LOCK_SH)


def take_keeper(layout: Layout) -> int | None:
    """The descriptor of the keeper's lock; None if a keeper, or a process that starts one, has it."""
    return _open(layout.lock, fcntl.LOCK_EX)


def kept(layout: Layout) -> bool:
    """Whether a keeper lives."""
    lock = take_keeper(layout)
    if lock is not None:
        os.close(lock)
    return lock is None


@contextmanager
def is_sole_user(layout: Layout) -> Generator[None]:
    """Lock all other processes out of the server within the block; they wait for its end.

    Raises EmbeddedServerError if a process uses the server.
    """
    make_state(layout.state)
    taken: list[int] = []
    try:
        for path in (layout.users, layout.lock):
            descriptor = _open(path, fcntl.LOCK_EX)
            if descriptor is None:
                raise EmbeddedServerError(
                    f"The database in {layout.data} is in use. Nothing was changed. Stop every process of Keyrack "
                    "that uses it (`keyrack serve`, `keyrack work` and other commands), then try again."
                )
            taken.append(descriptor)
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def others(layout: Layout, users: int) -> bool:
    """Release the shared lock `users`. Returns whether other users remain. Raises OSError.

    Processes that leave check one after another, so that none counts another's check as a user.
    """
    turn = os.open(layout.state, os.O_RDONLY)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        # An exclusive lock means no other user, a shared one means users. Neither means that the keeper is ending
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
    """Lock it without waiting. Returns False if another process has a conflicting lock."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
