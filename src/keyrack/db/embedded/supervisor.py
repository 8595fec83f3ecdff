"""The keeper: a separate process that starts the server, writes its log, and stops it.

Each process that uses the server has a shared lock on `users.lock`. The OS releases it however that process ends. The
keeper waits for an exclusive lock, which it gets when the last user is gone. It runs in a session of its own, so that
no Ctrl-C and no closed terminal reaches it. If the keeper is killed, the server ends too, and the next user that
notices starts another one.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from keyrack.db.embedded.binaries import Binaries, OsAccount, environment
from keyrack.db.embedded.layout import Layout
from keyrack.db.embedded.postmaster import Postmaster, open_log


class SupervisorHandle:
    """A keeper that this process has started.

    `lock` is the descriptor of `supervisor.lock`, which stays locked while the keeper lives.
    """

    def __init__(
        self,
        layout: Layout,
        binaries: Binaries,
        account: OsAccount,
        *,
        options: Mapping[str, str],
        log_bytes: int,
        lock: int,
    ) -> None:
        order = {
            "state": str(layout.state),
            "binaries": {"directory": str(binaries.directory), "version": binaries.version},
            "account": asdict(account),
            "options": dict(options),
            "log_bytes": log_bytes,
        }
        self._log = layout.log
        errors = open_log(layout.log, account)
        self._said_from = os.lseek(errors, 0, os.SEEK_END)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "keyrack.db.embedded.supervisor", json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # ours may be a pipe, whose reader would wait for the keeper's end
                stderr=errors,
                cwd="/",
                env=environment(),
                start_new_session=True,
                pass_fds=[lock],
            )
        finally:
            os.close(errors)

    @property
    def status(self) -> int | None:
        """The exit status of the server; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """The end of the server's log output since this start."""
        return self._log.read_bytes()[self._said_from :].decode(errors="replace").strip()[-2000:]


def _keep(order: str) -> int:
    """Run the server until its last user has left. Returns its exit status."""
    wanted = json.loads(order)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a handler, because children inherit ignored signals
        signal.signal(number, _unmoved)
    layout = Layout(Path(wanted["state"]))
    binaries = Binaries(Path(wanted["binaries"]["directory"]), wanted["binaries"]["version"])
    users = os.open(layout.users, os.O_RDONLY)
    server = Postmaster(layout, binaries, OsAccount(**wanted["account"]), wanted["options"], wanted["log_bytes"])

    def end_after_last_user() -> None:
        fcntl.flock(users, fcntl.LOCK_EX)  # kept until exit: a new user waits for that, then starts a new keeper
        server.stop()

    threading.Thread(target=end_after_last_user, daemon=True).start()
    return server.wait()


def _unmoved(_number: int, _frame: FrameType | None) -> None:
    """Ignore the signal: the server stops when its users have ended."""


if __name__ == "__main__":
    sys.exit(abs(_keep(sys.argv[1])))
