"""A cluster on one machine, from the files of deploy/ha.

It has three etcd, and three Patroni with PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from drills.machines import Machine, Program
from drills.networks import Network
from drills.programs import Programs

DEPLOY = Path(__file__).parent.parent / "deploy/ha"
SCOPE, NAMESPACE = "keyrack", "/service/"
DATABASES = ("db1", "db2", "db3")
STORES = ("etcd1", "etcd2", "etcd3")
CLIENT, PEER, REST, POSTGRES = 0, 1, 2, 3  # ports of a machine, relative to its first port
READY = 90.0  # seconds until a new cluster must have a primary and two standbys


class NotReady(Exception):
    """The cluster is not ready in time; the text has the missing condition."""


class Cluster:
    """etcd and PostgreSQL on `network`. Files are below `state`, and ports start at `first_port`."""

    def __init__(self, state: Path, programs: Programs, network: Network, first_port: int = 23_790) -> None:
        self._state = state
        self._programs = programs
        self._network = network
        self._first = first_port
        self._passwords = _passwords(state / "passwords.json")
        self.stores = {name: self._store(name) for name in STORES}
        self.machines = {name: self._machine(name) for name in DATABASES}

    # Addresses

    def address(self, machine: str, network: str, port: int) -> str:
        """`host:port` of a machine in a network."""
        number = (STORES + DATABASES).index(machine)
        return f"{self._network.address(machine, network)}:{self._first + 10 * number + port}"

    @property
    def dsn(self) -> str:
        """The database's address, with all three hosts."""
        return self.dsn_of(*DATABASES)

    def dsn_of(self, *machines: str) -> str:
        """The database's address on some machines."""
        hosts = ",".join(self.address(name, "clients", POSTGRES) for name in machines)
        # For psql and similar programs; Keyrack finds the primary itself
        attributes = "?target_session_attrs=read-write" if len(machines) > 1 else ""
        return f"postgresql://keyrack:{self._passwords['keyrack']}@{hosts}/keyrack{attributes}"

    def superuser(self, machine: str) -> str:
        """The address of the superuser's own database on one machine."""
        return (
            f"postgresql://postgres:{self._passwords['postgres']}@{self.address(machine, 'clients', POSTGRES)}/postgres"
        )

    # Start and stop

    async def start(self) -> None:
        """Start everything, and wait for a primary with two standbys. Raises `NotReady`."""
        for store in self.stores.values():
            store.start()
        await self._until(self._stores_ready, "etcd")
        self._protect_stores()
        for machine in self.machines.values():
            machine.patroni.start()
        await self._until(self.whole, "a primary and two standbys, one of them synchronous")
        await self._make_database()

    async def stop(self) -> None:
        """Stop the databases first, because they deregister in etcd, then etcd."""
        await asyncio.gather(*(machine.patroni.stop() for machine in self.machines.values()))
        await asyncio.gather(*(store.stop() for store in self.stores.values()))

    async def whole(self) -> bool:
        """Whether a primary streams to two standbys, one of them synchronous."""
        members = await self.members()
        roles = sorted(member["role"] for member in members)
        return roles == ["leader", "replica", "sync_standby"] and all(
            member["state"] in ("running", "streaming") for member in members
        )

    async def members(self) -> list[dict[str, Any]]:
        """Patroni's list of members, from the first machine that responds."""
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            for name in self.machines:
                with suppress(aiohttp.ClientError, TimeoutError, KeyError, ValueError):
                    async with http.get(f"http://{self.address(name, 'peers', REST)}/cluster") as answer:
                        return (await answer.json(content_type=None))["members"]
        return []

    async def leader(self) -> str:
        """The name of the primary; empty if there is none."""
        members = await self.members()
        return next((member["name"] for member in members if member["role"] == "leader"), "")

    def ctl(self, *arguments: str) -> str:
        """The output of `patronictl`. Raises `CalledProcessError`."""
        names = ",".join(self.address(name, "etcd", CLIENT) for name in STORES)
        file = self._state / "patronictl.yml"
        told = {"scope": SCOPE, "namespace": NAMESPACE, "etcd3": self._store_access() | {"hosts": names}}
        told["restapi"] = {"authentication": {"username": "patroni", "password": self._passwords["patroni"]}}
        file.touch(mode=0o600)
        file.write_text(json.dumps(told))  # JSON is YAML
        command = [self._programs.directory / "bin/python", self._programs.patronictl, "-c", file, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    async def until_whole(self, seconds: float = READY) -> None:
        """Wait for a primary with two standbys. Raises `NotReady`."""
        await self._until(self.whole, "a primary and two standbys, one of them synchronous", seconds)

    async def _until(self, condition: Any, what: str, seconds: float = READY) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not await condition():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise NotReady(f"Not ready after {seconds:g} s: {what}. See the logs in {self._state / 'logs'}.") from None

    # etcd

    def _store(self, name: str) -> Program:
        own = {
            "ETCD_NAME": name,
            "ETCD_DATA_DIR": str(self._directory(name)),
            "ETCD_LISTEN_PEER_URLS": f"http://{self.address(name, 'etcd', PEER)}",
            "ETCD_LISTEN_CLIENT_URLS": f"http://{self.address(name, 'etcd', CLIENT)}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": f"http://{self.address(name, 'etcd', PEER)}",
            "ETCD_ADVERTISE_CLIENT_URLS": f"http://{self.address(name, 'etcd', CLIENT)}",
            "ETCD_INITIAL_CLUSTER": ",".join(f"{one}=http://{self.address(one, 'etcd', PEER)}" for one in STORES),
        }
        return self._program(name, [self._programs.etcd], variables(DEPLOY / "etcd.env", own))

    async def _stores_ready(self) -> bool:
        timeout = aiohttp.ClientTimeout(total=2)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            for name in STORES:
                try:
                    async with http.get(f"http://{self.address(name, 'etcd', CLIENT)}/health") as answer:
                        if (await answer.json(content_type=None)).get("health") != "true":
                            return False
                except (aiohttp.ClientError, TimeoutError, ValueError):
                    return False
        return True

    def _store_access(self) -> dict[str, str]:
        return {"username": "patroni", "password": self._passwords["etcd"]}

    def _protect_stores(self) -> None:
        """Allow only Patroni access, by name and password."""
        if "true" in self._etcdctl("auth", "status", check=False).casefold():
            return
        for arguments in (
            ("user", "add", f"root:{self._passwords['etcd-root']}"),
            ("user", "grant-role", "root", "root"),
            ("role", "add", "patroni"),
            ("role", "grant-permission", "--prefix=true", "patroni", "readwrite", NAMESPACE),
            ("user", "add", f"patroni:{self._passwords['etcd']}"),
            ("user", "grant-role", "patroni", "patroni"),
            ("auth", "enable"),
        ):
            self._etcdctl(*arguments, check=arguments[0] == "auth")

    def _etcdctl(self, *arguments: str, check: bool = True) -> str:
        endpoints = ",".join(self.address(name, "etcd", CLIENT) for name in STORES)
        command = [self._programs.etcdctl, f"--endpoints={endpoints}", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=check, env=os.environ | {"ETCDCTL_API": "3"}
        )
        return done.stdout

    # Patroni with PostgreSQL

    def _machine(self, name: str) -> Machine:
        data = self._directory(name)
        port = self.address(name, "peers", POSTGRES).rpartition(":")[2]
        rest = self.address(name, "peers", REST).rpartition(":")[2]
        listen = "127.0.0.1" if self._network.address(name, "peers") == "127.0.0.1" else "0.0.0.0"  # noqa: S104 - its own namespace
        own = {
            "PATRONI_NAME": name,
            "PATRONI_RESTAPI_LISTEN": f"{listen}:{rest}",
            "PATRONI_RESTAPI_CONNECT_ADDRESS": self.address(name, "peers", REST),
            "PATRONI_RESTAPI_PASSWORD": self._passwords["patroni"],
            "PATRONI_POSTGRESQL_LISTEN": f"{listen}:{port}",
            "PATRONI_POSTGRESQL_CONNECT_ADDRESS": self.address(name, "peers", POSTGRES),
            "PATRONI_POSTGRESQL_DATA_DIR": str(data / "pgdata"),
            "PATRONI_POSTGRESQL_PGPASS": str(data / "patroni.pgpass"),
            "PATRONI_POSTGRESQL_BIN_DIR": str(self._programs.postgres),
            "PATRONI_SUPERUSER_PASSWORD": self._passwords["postgres"],
            "PATRONI_REPLICATION_PASSWORD": self._passwords["replicator"],
            "PATRONI_REWIND_PASSWORD": self._passwords["rewinder"],
            "PATRONI_ETCD3_HOSTS": ",".join(self.address(one, "etcd", CLIENT) for one in STORES),
            "PATRONI_ETCD3_PASSWORD": self._passwords["etcd"],
        }
        command = [self._programs.directory / "bin/python", self._programs.patroni, self._configuration()]
        return Machine(name, self._program(name, command, variables(DEPLOY / "patroni.env", own)), data / "pgdata")

    def _configuration(self) -> Path:
        """A copy of deploy/ha/patroni.yml that the account can read."""
        file = self._state / "patroni.yml"
        file.write_bytes((DEPLOY / "patroni.yml").read_bytes())
        return file

    async def _make_database(self) -> None:
        leader = await self.leader()
        raw = await asyncpg.connect(self.superuser(leader), timeout=10)
        try:
            if not await raw.fetchval("select exists(select from pg_database where datname = 'keyrack')"):
                for statement in _statements(DEPLOY / "database.sql", self._passwords["keyrack"]):
                    await raw.execute(statement)
        finally:
            await raw.close()

    # Common parts

    def _program(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str]) -> Program:
        logs = self._state / "logs"
        logs.mkdir(exist_ok=True)
        return Program(
            name, command, prefix=self._network.prefix(name), account=self._programs.account, variables=environment,
            log=logs / f"{name}.log",
        )  # fmt: skip

    def _directory(self, name: str) -> Path:
        directory = self._state / name
        directory.mkdir(mode=0o700, exist_ok=True)
        self._programs.account.own(directory)
        return directory


def variables(file: Path, own: Mapping[str, str]) -> dict[str, str]:
    """The settings in a file of deploy/ha, with the values of a machine.

    Raises `KeyError` for a value without a setting in the file, which operators would not know.
    """
    lines = (line.split("=", 1) for line in file.read_text().splitlines() if line and not line.startswith("#"))
    told = dict(lines)
    if unknown := own.keys() - told.keys():
        raise KeyError(f"{file.name} does not set {', '.join(sorted(unknown))}")
    return told | dict(own)


def _statements(file: Path, password: str) -> list[str]:
    """The statements of the file, as psql would send them with the password."""
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("--"))
    quoted = "'" + password.replace("'", "''") + "'"
    return [statement for statement in text.replace(":'password'", quoted).split(";") if statement.strip()]


def _passwords(file: Path) -> dict[str, str]:
    """One password for each account, created at the first start."""
    if not file.exists():
        names = ("postgres", "replicator", "rewinder", "patroni", "keyrack", "etcd", "etcd-root")
        file.touch(mode=0o600)
        file.write_text(json.dumps({name: secrets.token_urlsafe(18) for name in names}))
    return json.loads(file.read_text())
