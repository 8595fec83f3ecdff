"""In charge of the server's life: a process of its own, the keeper, starts it, writes its log, and ends it.

Whoever uses the server holds a shared lock on `users.lock`, which the system takes back however that process ends. The
keeper waits for an exclusive one, and gets it when nobody is left. It is in no user's session, so that no Ctrl-C and no
end of a terminal reaches it; if it is killed, the server ends too, and the next user to notice starts another one.
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

from keyrack.db.embedded.binaries import Binaries, OsAccount
from keyrack.db.embedded.layout import Layout
from keyrack.db.embedded.postmaster import Postmaster, open_log


class SupervisorHandle:
    """A keeper that this process has started. `lock`, the descriptor of `supervisor.lock`, is locked as long as it
    lives."""

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
                start_new_session=True,
                pass_fds=[lock],
            )
        finally:
            os.close(errors)

    @property
    def status(self) -> int | None:
        """The status with which the server has ended; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """The end of what the server has written to its log."""
        return self._log.read_bytes()[self._said_from :].decode(errors="replace").strip()[-2000:]


def _keep(order: str) -> int:
    """Run the server until its last user has ended; the status with which it ends."""
    wanted = json.loads(order)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a handler, since what is ignored is inherited
        signal.signal(number, _unmoved)
    layout = Layout(Path(wanted["state"]))
    binaries = Binaries(Path(wanted["binaries"]["directory"]), wanted["binaries"]["version"])
    users = os.open(layout.users, os.O_RDONLY)
    server = Postmaster(layout, binaries, OsAccount(**wanted["account"]), wanted["options"], wanted["log_bytes"])

    def end_after_last_user() -> None:
        fcntl.flock(users, fcntl.LOCK_EX)  # kept to our end: whoever comes now waits for that, and starts a new one
        server.stop()

    threading.Thread(target=end_after_last_user, daemon=True).start()
    return server.wait()


def _unmoved(_number: int, _frame: FrameType | None) -> None:
    """Who wants the server to end ends its users."""


if __name__ == "__main__":
    sys.exit(abs(_keep(sys.argv[1])))
