"""One process's use of the embedded server: join, watch, leave.

Several processes may use one state directory. The process that finds no server starts a keeper
(`db.embedded.supervisor`), which runs the server until the last user has ended. The others use the running one. A
killed process leaves only its lock, which the OS releases.
"""

from __future__ import annotations

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

from keyrack.db.embedded import locks, wal_archiving
from keyrack.db.embedded.binaries import Binaries, EmbeddedServerError, OsAccount, end_with_parent, find_binaries
from keyrack.db.embedded.layout import (
    NAME,
    Layout,
    check_reachable,
    check_sockets,
    make_cluster,
    make_sockets,
    refuse_interrupted,
    write_access_files,
)
from keyrack.db.embedded.probe import ProbeResult, announced_ready, drop_foreign_pids, left_behind, probe
from keyrack.db.embedded.supervisor import SupervisorHandle

__all__ = ["EmbeddedServer", "EmbeddedServerError", "end_with_parent"]

log = logging.getLogger("keyrack.postgres")

# Seconds.
POLL = 0.01  # while waiting for a change
WATCH = 0.1  # in normal operation
RETRY = 1.0  # after a failed restart
REMIND = 10.0  # between two log lines about one long problem
ORPHAN_BACKENDS = 0.5  # in which backends notice the death of their postmaster; then they get SIGQUIT
ORPHAN_SERVER = 2.0  # in which a server whose keeper died begins to end; then it gets SIGINT
OLD_MEMORY = 10.0  # until shared memory of an earlier server must be gone
LONGEST_END = 5.0  # that the last user waits for the server's end


class _Stopping(Exception):
    """stop() was called while the watchdog was waiting."""


class EmbeddedServer:
    """An embedded PostgreSQL server in the directory `state`, which is made if missing.

    - `bin_dir`: the PostgreSQL programs. The default is the wheel's, then the system's.
    - `options`: server parameters by name, such as `{"fsync": "off"}` for a test.
    - `log_bytes`: the maximum size of its log.
    - `backups`: the directory of the WAL archive, or `off`. The default is that of the last server on `state`.

    The process that starts the server decides about these.
    """

    def __init__(
        self,
        state: Path,
        *,
        bin_dir: Path | None = None,
        options: Mapping[str, str] | None = None,
        log_bytes: int = 16_000_000,
        backups: str | None = None,
    ) -> None:
        self._layout = Layout(state.resolve())
        self._backups = backups
        self._bin_dir = bin_dir
        self._options = dict(options or {})
        self._log_bytes = log_bytes
        self._users: int | None = None  # descriptor of `users.lock` while this process is a user
        self._keeper: SupervisorHandle | None = None  # the last one that this process started
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()  # the first start has succeeded or failed
        self._stopping = threading.Event()
        self._failure: EmbeddedServerError | None = None
        self._complained = float("-inf")  # time of the last log line about a failed restart

    @property
    def dsn(self) -> str:
        """The database's address for asyncpg."""
        return f"postgresql://{NAME}@/{NAME}?host={quote(str(self._layout.sockets), safe='')}&port=5432"

    @property
    def made(self) -> bool:
        """Whether there are data; `start` makes them."""
        return (self._layout.data / "PG_VERSION").exists()

    def refuse_beginning(self) -> None:
        """Raise EmbeddedServerError if missing data exist elsewhere.

        An interrupted upgrade may have moved them away, or backups of them may exist.
        """
        refuse_interrupted(self._layout)
        directory = wal_archiving.resolve_archive_directory(self._layout, self._backups)
        if directory is not None:
            wal_archiving.refuse_beginning(self._layout, directory)

    def environment(self) -> dict[str, str]:
        """Environment variables for PostgreSQL's own programs: the server's address, and their path first."""
        account = OsAccount.choose(self._layout.data)
        programs = find_binaries(self._bin_dir, account, self._layout.state).directory
        return {
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
            "PGHOST": str(self._layout.sockets),
            "PGPORT": "5432",
            "PGUSER": NAME,
            "PGDATABASE": NAME,
        }

    def start(self) -> None:
        """Block until a connection works, and keep the server running from then on.

        Crash recovery may take any time. Raises EmbeddedServerError.
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
        """Leave the server. The last user waits up to 5 seconds for its end. May be called repeatedly."""
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

    # The watchdog, in its own thread

    def _watch(self) -> None:
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._step())
        except _Stopping:
            pass
        finally:
            self._settled.set()
            self._leave()

    def _step(self) -> float:
        """Check once and act once. Returns the seconds until the next check."""
        try:
            if self._works():
                self._settled.set()
            return WATCH if self._settled.is_set() else POLL
        except _Stopping:
            raise
        except Exception as error:
            expected = isinstance(error, EmbeddedServerError)
            if self._settled.is_set():
                if self._may_complain():
                    self._complained = time.monotonic()
                    log.error(
                        "embedded postgresql unavailable, retrying",
                        exc_info=not expected,
                        extra={"details": {"error": error}},
                    )
                return RETRY
            self._failure = error if expected else EmbeddedServerError(f"{type(error).__name__}: {error}")
            if not expected:
                self._failure.__cause__ = error
            raise _Stopping from error

    def _works(self) -> bool:
        if self._users is None:
            self._users = locks.join(self._layout)
        if self._users is None:
            return False
        lock = locks.take_keeper(self._layout)
        if lock is None:  # a keeper keeps the server running
            return self._settled.is_set() or self._answers()
        try:
            if self._settled.is_set() and self._may_complain():
                log.warning("embedded postgresql exited, restarting", extra={"details": {"status": self._status()}})
            self._begin(lock, self._users)
            return True
        finally:
            os.close(lock)  # the keeper has its own descriptor

    def _may_complain(self) -> bool:
        return time.monotonic() - self._complained > REMIND

    def _status(self) -> int | None:
        return None if self._keeper is None else self._keeper.status

    def _answers(self) -> bool:
        if announced_ready(self._layout) is None or not os.path.lexists(self._layout.sockets):
            return False
        check_sockets(self._layout, OsAccount.choose(self._layout.data))
        return probe(self._layout) is ProbeResult.READY

    def _begin(self, lock: int, users: int) -> None:
        """Start the server, as the owner of the keeper's lock."""
        account = OsAccount.choose(self._layout.data)
        account.own(lock)
        account.own(users)
        check_reachable(self._layout.state, account)
        make_sockets(self._layout, account)
        self._wait_for_previous(account)
        binaries = find_binaries(self._bin_dir, account, self._layout.state)
        self.refuse_beginning()
        directory = wal_archiving.resolve_archive_directory(self._layout, self._backups)
        make_cluster(self._layout, binaries, account)
        write_access_files(self._layout, account)
        options = self._options
        if directory is not None:
            options = wal_archiving.parameters(self._layout, directory, binaries, account) | options
        wal_archiving.remember(self._layout, directory)
        deadline = time.monotonic() + OLD_MEMORY
        while not self._start_keeper(binaries, account, options, lock, last=time.monotonic() > deadline):
            self._pause(5 * POLL)

    def _wait_for_previous(self, account: OsAccount) -> None:
        """Wait until no process uses the data. A server without a keeper is stopped if it does not end."""
        began, reminded = time.monotonic(), 0.0
        while True:
            postmaster, others = left_behind(self._layout, account)
            answer = probe(self._layout)
            waited = time.monotonic() - began
            if answer is ProbeResult.READY and (sys.platform != "linux" or waited > ORPHAN_SERVER):
                self._tell_to_end()
            if answer is ProbeResult.ABSENT and not postmaster and not others:
                break
            if others and not postmaster and waited > ORPHAN_BACKENDS:
                # As a postmaster does to its backends when one of them crashes; committed data are safe.
                for pid in others:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
            if waited - reminded > REMIND:
                reminded = waited
                log.warning(
                    "waiting for the previous postgresql to stop",
                    extra={"details": {"directory": str(self._layout.data)}},
                )
            self._pause(POLL if waited < 1 else WATCH)
        for path in drop_foreign_pids(self._layout):
            log.warning("stale pid file removed", extra={"details": {"path": str(path)}})

    def _tell_to_end(self) -> None:
        pid = announced_ready(self._layout)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def _start_keeper(
        self, binaries: Binaries, account: OsAccount, options: Mapping[str, str], lock: int, *, last: bool
    ) -> bool:
        """Start the server and wait until a connection works. Returns False for a retry, unless it is the last one."""
        self._keeper = keeper = SupervisorHandle(
            self._layout, binaries, account, options=options, log_bytes=self._log_bytes, lock=lock
        )
        while keeper.status is None:
            if announced_ready(self._layout) is not None and probe(self._layout) is ProbeResult.READY:
                return True
            self._pause(POLL)
        said = keeper.said()
        if not last and re.search(r"shared memory block .* still in use|lock file .* already exists", said):
            return False
        raise EmbeddedServerError(f"PostgreSQL does not start (status {keeper.status}): {said}")

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopping

    def _leave(self) -> None:
        """Leave the server. The last user waits for its end: in a container, all processes end with this one."""
        users, self._users = self._users, None
        if users is None:
            return
        deadline = time.monotonic() + LONGEST_END
        try:
            while locks.kept(self._layout) and not locks.others(self._layout, users) and time.monotonic() < deadline:
                time.sleep(POLL)
        except (EmbeddedServerError, OSError):  # the directory was removed
            pass
        os.close(users)
        if self._keeper is not None:
            self._status()  # reaps a keeper that has ended
