"""The state directory of the embedded PostgreSQL: its paths, and their creation."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from keyrack.db.embedded.binaries import Binaries, EmbeddedServerError, OsAccount

NAME = "keyrack"  # the cluster's superuser, and the database
# Keyrack itself logs the errors of its statements, because their messages may quote personal data. PostgreSQL's log
# gets only the errors of the server's own processes
QUIET = f"alter role {NAME} set log_min_messages = 'log'"
LONGEST_SOCKET_PATH = 107 if sys.platform == "linux" else 103  # bytes of sun_path without its final zero


@dataclass(frozen=True)
class Layout:
    """The paths in a state directory, which is absolute and free of symbolic links."""

    state: Path

    @property
    def data(self) -> Path:
        return self.state / "pgdata"

    @property
    def fresh(self) -> Path:
        """A new cluster, before the rename to `data`."""
        return self.state / "pgdata.new"

    @property
    def pid_file(self) -> Path:
        return self.data / "postmaster.pid"

    @property
    def log(self) -> Path:
        return self.state / "postgres.log"

    @property
    def lock(self) -> Path:
        """Locked while a keeper lives or starts."""
        return self.state / "supervisor.lock"

    @property
    def users(self) -> Path:
        """Shared lock of all processes that use the server; exclusive lock of the keeper while it ends."""
        return self.state / "users.lock"

    @property
    def hba_file(self) -> Path:
        return self.state / "pg_hba.conf"

    @property
    def ident_file(self) -> Path:
        return self.state / "pg_ident.conf"

    @property
    def sockets(self) -> Path:
        """The socket directory: `<state>/sock`, or one in /tmp.

        The one in /tmp is for a state directory whose path makes no valid socket address. Its name contains a hash of
        that path.
        """
        inside = self.state / "sock"
        longest = len(os.fsencode(inside)) + len("/.s.PGSQL.5432")
        if longest <= LONGEST_SOCKET_PATH and "," not in str(inside):  # a comma separates addresses in a DSN
            return inside
        # Not tempfile.gettempdir(): every process must get the same name.
        return Path("/tmp") / f"keyrack-{hashlib.sha256(os.fsencode(self.state)).hexdigest()[:16]}"  # noqa: S108 - see above

    @property
    def socket_file(self) -> Path:
        return self.sockets / ".s.PGSQL.5432"


def make_state(state: Path) -> None:
    """Make the state directory and its parents; others can traverse but not list them."""
    try:
        for path in [path for path in reversed((state, *state.parents)) if not path.is_dir()]:
            with suppress(FileExistsError):  # another process was faster
                path.mkdir()
                path.chmod(0o711)  # independent of the umask
    except OSError as error:
        raise EmbeddedServerError(f"Cannot make the state directory {state}: {error.strerror}.") from None


def check_reachable(state: Path, account: OsAccount) -> None:
    """Raise EmbeddedServerError if the account cannot reach the state directory.

    The group of a shared account keeps its other programs out of the directory, although the account owns the data and
    sockets there.
    """
    if account.shared:
        os.chown(state, -1, account.gid)
        state.chmod(0o710)
    if not account.switch or account.can_enter(state):
        return
    barred = next((path for path in reversed((state, *state.parents)) if not account.can_enter(path)), state)
    raise EmbeddedServerError(
        f"The OS user {account.name}, which runs PostgreSQL for root, cannot enter {barred}. Choose a state "
        "directory (KEYRACK_STATE) that this user can reach, or run Keyrack as a normal user."
    )


def make_sockets(layout: Layout, account: OsAccount) -> None:
    """Make the socket directory. Raises EmbeddedServerError if that fails, or if another account owns it."""
    ours = layout.sockets.parent == layout.state
    if account.shared and not ours:
        raise EmbeddedServerError(
            f"The path {layout.state} is too long for the sockets of PostgreSQL, and outside of it every process of "
            f"the OS user {account.name} could use them. Choose a state directory with a shorter path."
        )
    try:
        layout.sockets.mkdir(mode=0o700)
        ours = True
    except FileExistsError:
        pass
    except OSError as error:
        raise EmbeddedServerError(
            f"Cannot make {layout.sockets} for the sockets of PostgreSQL: {error.strerror}. "
            "Choose a state directory that is writable and whose path is short."
        ) from None
    if ours:
        account.own(layout.sockets)
        layout.sockets.chmod(0o711)
    check_sockets(layout, account)


def check_sockets(layout: Layout, account: OsAccount) -> None:
    """Raise EmbeddedServerError unless the account alone controls the socket directory.

    In /tmp, another account could have made the directory first, and could run its own server there.
    """
    status = layout.sockets.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o022:
        raise EmbeddedServerError(
            f"The directory {layout.sockets} for the sockets of PostgreSQL must belong to the OS user {account.name}, "
            "and only that user may write to it. Remove it, or choose a state directory with a shorter path."
        )


def make_cluster(layout: Layout, binaries: Binaries, account: OsAccount) -> None:
    """Make the cluster and its database, if missing. A rename makes them atomic.

    Raises EmbeddedServerError if initdb fails, or if the data are of another major version.
    """
    if (layout.data / "PG_VERSION").exists():
        _check_major(layout, binaries)
        return
    refuse_interrupted(layout)
    fresh = layout.fresh
    init(fresh, binaries, account)
    single = [binaries.directory / "postgres", "--single", "-D", fresh, "-c", "fsync=off", "template1"]
    created = account.run(single, text=f"create database {NAME}\n{QUIET}\n")
    failed = created.returncode != 0 or "ERROR" in created.stderr or "FATAL" in created.stderr
    _require(not failed, "Cannot create the database", created.stderr)
    synced = account.run([binaries.directory / "initdb", "-D", fresh, "--sync-only"])
    _require(synced.returncode == 0, "initdb cannot sync", synced.stderr)
    fresh.rename(layout.data)
    descriptor = os.open(layout.state, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def refuse_interrupted(layout: Layout) -> None:
    """Raise EmbeddedServerError if an interrupted upgrade has moved the data away."""
    before = [] if layout.data.exists() else sorted(layout.state.glob("pgdata.[0-9]*"))
    if before:
        raise EmbeddedServerError(
            f"{layout.data} is missing, but {before[-1]} is there: an upgrade was interrupted. Nothing was changed. "
            f"Restore the old data with `mv {before[-1]} {layout.data}`, then upgrade again."
        )


def init(fresh: Path, binaries: Binaries, account: OsAccount, *, checksums: bool = True) -> None:
    """Make an empty cluster, with or without `checksums` of its pages. Raises EmbeddedServerError."""
    command = [binaries.directory / "initdb", "-D", fresh, "-U", NAME, "-E", "UTF8", "-A", "peer"]
    command += ["--no-sync", *(["--data-checksums"] if checksums else [])]
    if not checksums and binaries.major >= 18:  # checksums are the default since 18
        command += ["--no-data-checksums"]
    if binaries.major >= 17:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    for locale in ("--locale=C.UTF-8", "--no-locale"):  # some systems lack the first
        shutil.rmtree(fresh, ignore_errors=True)  # an interrupted attempt may have left files
        fresh.mkdir(mode=0o700)
        account.own(fresh)
        made = account.run([*command, locale])
        if made.returncode == 0:
            return
    _require(False, "initdb failed", made.stderr)


def _check_major(layout: Layout, binaries: Binaries) -> None:
    made_by = (layout.data / "PG_VERSION").read_text().strip()
    if made_by != str(binaries.major):
        raise EmbeddedServerError(
            f"{layout.data} was made by PostgreSQL {made_by}, but the programs in {binaries.directory} are "
            f"PostgreSQL {binaries.version}. Nothing was changed. To keep the old version, set KEYRACK_POSTGRES_BIN to "
            f"the directory of the programs of PostgreSQL {made_by}. To upgrade the data, run `keyrack database "
            "upgrade --from` with that directory (docs/upgrading-postgresql.md)."
        )


def write_access_files(layout: Layout, account: OsAccount, *, alone: bool = False) -> None:
    """Write the peer authentication of the cluster.

    It admits the OS users of Keyrack and PostgreSQL, and root, which can become either. A shared account is not
    admitted, unless the server is for that account `alone`. The files are outside of the data directory, so that root
    never writes where another account may place links.
    """
    users = {pwd.getpwuid(os.geteuid()).pw_name, "root"}
    if alone:
        users = {account.name}
    elif not account.shared:
        users.add(account.name)
    rules = f"local all all peer map={NAME}\nlocal replication all peer map={NAME}\n"
    _write(layout.hba_file, rules, account)
    _write(layout.ident_file, "".join(f'{NAME} "{user}" {NAME}\n' for user in sorted(users)), account)


def _write(path: Path, text: str, account: OsAccount) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, text.encode())
        account.own(descriptor)
    finally:
        os.close(descriptor)
    fresh.replace(path)


def _require(condition: bool, problem: str, said: str) -> None:
    if not condition:
        raise EmbeddedServerError(f"{problem}: {said.strip()[-2000:]}")
