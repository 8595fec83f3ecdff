"""Commands in a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress

from tests.support.servers import DEADLINE

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def seen(columns: int, env: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run `keyrack` in such a terminal. Returns exit status and output."""
    own, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    whole = {name: value for name, value in (os.environ | env).items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "keyrack", *arguments]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=whole) as process:
        os.close(other)
        written = b""
        with suppress(OSError):  # the other side of the terminal is closed
            while piece := os.read(own, 65_536):
                written += piece
        os.close(own)
        return process.wait(DEADLINE), written.decode().replace("\r\n", "\n")


def typed(env: dict[str, str], *arguments: str, until: str) -> str:
    """Run `keyrack` until it writes `until`, end it, and return its output.

    It ends as by Ctrl-C.
    """
    own, other = pty.openpty()
    command = [sys.executable, "-m", "keyrack", *arguments]
    whole = {**os.environ, **env}
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=whole) as process:
        os.close(other)
        written = b""
        with suppress(OSError):
            while until.encode() not in written and (piece := os.read(own, 65_536)):
                written += piece
        process.send_signal(signal.SIGINT)
        with suppress(OSError):
            while piece := os.read(own, 65_536):
                written += piece
        os.close(own)
        assert process.wait(DEADLINE) == 0, written.decode()
        return written.decode().replace("\r\n", "\n")
