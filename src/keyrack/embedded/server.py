"""In charge of the embedded PostgreSQL: starts it on first use and keeps it running.

One process at a time supervises the server, the one that holds the lock on `supervisor.lock`; PostgreSQL is
its direct child and ends with it. Every other process adopts the running server and takes over when the lock
comes free. So whichever process survives keeps the database running.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from keyrack.embedded.binaries import Account, Binaries, EmbeddedServerError, find_binaries
from keyrack.embedded.layout import (
    NAME,
    Layout,
    check_reachable,
    check_sockets,
    make_cluster,
    make_sockets,
    make_state,
    write_access_files,
)
from keyrack.embedded.postmaster import Postmaster
from keyrack.embedded.probe import Answer, announced_ready, drop_foreign_pids, left_behind, probe

__all__ = ["EmbeddedServer", "EmbeddedServerError"]

log = logging.getLogger("keyrack.postgres")

# Seconds.
POLL = 0.01  # while something is about to happen
WATCH = 0.1  # while all is well
RETRY = 1.0  # after a failed restart
REMIND = 10.0  # between two messages about one long wait
ORPHAN_BACKENDS = 0.5  # that they get to notice their postmaster's death by themselves
ORPHAN_SERVER = 2.0  # in which a server whose supervisor died has begun to end, or never will
OLD_MEMORY = 10.0  # that shared memory of an earlier server may take to go


class _Stopping(Exception):
    """stop() was called while the watchdog was waiting for something."""


class EmbeddedServer:
    """A PostgreSQL server of our own, in the directory `state` (made if missing).

    `bin_dir` holds the PostgreSQL programs (default: the wheel's, then the system's); `options` are server
    parameters by name, as `{"fsync": "off"}` for a test.
    """

    def __init__(self, state: Path, *, bin_dir: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self._layout = Layout(state.resolve())
        self._bin_dir = bin_dir
        self._options = dict(options or {})
        self._child: Postmaster | None = None
        self._lock: int | None = None
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()  # the first start has succeeded or failed
        self._stopping = threading.Event()
        self._failure: EmbeddedServerError | None = None

    @property
    def dsn(self) -> str:
        """The database's address, as asyncpg takes it."""
        return f"postgresql://{NAME}@/{NAME}?host={quote(str(self._layout.sockets), safe='')}&port=5432"

    def start(self) -> None:
        """Block until a connection works, however long crash recovery takes, and keep it so from then on.

        Raises EmbeddedServerError.
        """
        if self._thread is not None:
            return
        self._failure = None
        self._stopping.clear()
        self._settled.clear()
        self._thread = threading.Thread(target=self._watch, name="keyrack-postgres", daemon=True)
        self._thread.start()
        try:
            self._settled.wait()
        except BaseException:  # Ctrl-C
            self.stop()
            raise
        if self._failure is not None:
            self.stop()
            raise self._failure

    def stop(self) -> None:
        """Stop the server within 5 seconds if it is our child, else only leave it. May be called repeatedly."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # The watchdog. It alone touches the child: on Linux a child's death signal belongs to the THREAD that
    # made the child, so that this thread must live as long as the server is to run.

    def _watch(self) -> None:
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._step())
        except _Stopping:
            pass
        finally:
            self._settled.set()
            self._shut_down()

    def _step(self) -> float:
        """Look once, act once; the seconds until the next look."""
        try:
            if self._works():
                self._settled.set()
            return WATCH if self._settled.is_set() else POLL
        except _Stopping:
            raise
        except Exception as error:
            expected = isinstance(error, EmbeddedServerError)
            if self._settled.is_set():
                log.error("The embedded PostgreSQL is down; trying again: %s", error, exc_info=not expected)
                return RETRY
            self._failure = error if expected else EmbeddedServerError(f"{type(error).__name__}: {error}")
            if not expected:
                self._failure.__cause__ = error
            raise _Stopping from error

    def _works(self) -> bool:
        if self._child is not None:
            if self._child.status is None:
                return True
            log.warning("PostgreSQL ended with status %s; starting it again", self._child.status)
            self._child = None
        if self._lock is None:
            self._lock = self._try_lock()
        if self._lock is not None:
            self._supervise(self._lock)
            return True
        # Another process supervises, and sees to it that the server works.
        return self._settled.is_set() or self._adopt()

    def _adopt(self) -> bool:
        if announced_ready(self._layout) is None or not os.path.lexists(self._layout.sockets):
            return False
        check_sockets(self._layout, Account.choose(self._layout.data))
        return probe(self._layout) is Answer.READY

    def _try_lock(self) -> int | None:
        """Take the supervisor's lock; None when another process has it."""
        make_state(self._layout.state)
        try:
            descriptor = os.open(self._layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except PermissionError:
            raise EmbeddedServerError(
                f"Cannot open {self._layout.lock}: the state directory belongs to another OS user. "
                "Run Keyrack as that user or as root, or choose another state directory."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _supervise(self, lock: int) -> None:
        """Make the server run, as the holder of the lock."""
        account = Account.choose(self._layout.data)
        account.own(lock)
        check_reachable(self._layout.state, account)
        make_sockets(self._layout, account)
        if not self._wait_for_previous(account):
            return
        binaries = find_binaries(self._bin_dir, account, self._layout.state)
        make_cluster(self._layout, binaries, account)
        write_access_files(self._layout, account)
        deadline = time.monotonic() + OLD_MEMORY
        while not self._start_child(binaries, account, last=time.monotonic() > deadline):
            self._pause(5 * POLL)

    def _wait_for_previous(self, account: Account) -> bool:
        """Wait until nothing runs on the data; False if a server that is not our child is there to stay."""
        began, reminded = time.monotonic(), 0.0
        while True:
            postmaster, others = left_behind(self._layout, account)
            answer = probe(self._layout)
            waited = time.monotonic() - began
            if answer is Answer.READY and (sys.platform != "linux" or waited > ORPHAN_SERVER):
                return False
            if answer is Answer.ABSENT and not postmaster and not others:
                break
            if others and not postmaster and waited > ORPHAN_BACKENDS:
                # As a postmaster does to its backends when one of them crashed; nothing committed is lost.
                for pid in others:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
            if waited - reminded > REMIND:
                reminded = waited
                log.warning("Waiting for the PostgreSQL left in %s to end", self._layout.data)
            self._pause(POLL if waited < 1 else WATCH)
        for path in drop_foreign_pids(self._layout):
            log.warning("Removed %s: the process it names is no PostgreSQL of ours", path)
        return True

    def _start_child(self, binaries: Binaries, account: Account, *, last: bool) -> bool:
        """Start PostgreSQL and wait until a connection works; False: to be tried again, unless it is the last try."""
        self._child = child = Postmaster(self._layout, binaries, account, self._options)
        while child.status is None:
            if announced_ready(self._layout) == child.pid and probe(self._layout) is Answer.READY:
                return True
            self._pause(POLL)
        self._child = None
        said = child.said()
        if not last and re.search(r"shared memory block .* still in use|lock file .* already exists", said):
            return False
        raise EmbeddedServerError(f"PostgreSQL does not start (status {child.status}): {said}")

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopping

    def _shut_down(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
