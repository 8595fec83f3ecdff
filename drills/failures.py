"""Failures of machines: how each begins, how long it lasts, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from drills.cluster import DATABASES, Cluster
from drills.machines import kill
from drills.networks import Namespaces

Act = Callable[[Cluster, str], Awaitable[None]]

PLANNED, KILLED, LOST = 2.0, 10.0, 23.0  # maximum seconds without writes, by cause


@dataclass(frozen=True)
class Failure:
    """A failure of the primary for some seconds; `goal` is the maximum time without writes."""

    name: str
    goal: float
    begin: Act
    end: Act
    lasts: float
    moves: bool = True  # whether another machine becomes primary


async def _nothing(cluster: Cluster, leader: str) -> None:
    """The failure ends by itself."""


async def _switch(cluster: Cluster, leader: str) -> None:
    members = await cluster.members()
    heir = next(member["name"] for member in members if member["role"] == "sync_standby")
    await asyncio.to_thread(cluster.ctl, "switchover", "--leader", leader, "--candidate", heir, "--force")


async def _kill(cluster: Cluster, leader: str) -> None:
    kill(cluster.machines[leader].everything(), signal.SIGKILL)


async def _kill_postgres(cluster: Cluster, leader: str) -> None:
    kill(cluster.machines[leader].postgres()[:1], signal.SIGKILL)


async def _lose(cluster: Cluster, leader: str) -> None:
    cluster.machines[leader].lose()


async def _return(cluster: Cluster, leader: str) -> None:
    cluster.machines[leader].patroni.start()


async def _stop_all(cluster: Cluster, leader: str) -> None:
    kill(cluster.machines[leader].everything(), signal.SIGSTOP)


async def _go_on_all(cluster: Cluster, leader: str) -> None:
    kill(cluster.machines[leader].everything(), signal.SIGCONT)


async def _stop_patroni(cluster: Cluster, leader: str) -> None:
    pid = cluster.machines[leader].patroni.pid
    kill([pid] if pid else [], signal.SIGSTOP)


async def _go_on_patroni(cluster: Cluster, leader: str) -> None:
    pid = cluster.machines[leader].patroni.pid
    kill([pid] if pid else [], signal.SIGCONT)


async def _stop_stores(cluster: Cluster, leader: str) -> None:
    kill([store.pid for store in cluster.stores.values() if store.pid], signal.SIGSTOP)


async def _go_on_stores(cluster: Cluster, leader: str) -> None:
    kill([store.pid for store in cluster.stores.values() if store.pid], signal.SIGCONT)


async def _rebuild(cluster: Cluster, leader: str) -> None:
    standby = next(name for name in DATABASES if name != leader)
    await asyncio.to_thread(cluster.ctl, "reinit", "keyrack", standby, "--force")


def everywhere() -> list[Failure]:
    """Failures that work on any machine."""
    return [
        Failure("switched over by plan", PLANNED, _switch, _nothing, 5),
        Failure("PostgreSQL killed (kill -9)", KILLED, _kill_postgres, _nothing, 5),
        Failure("PostgreSQL and Patroni killed, supervised", KILLED, _kill, _nothing, 5),
        Failure("machine lost: killed, back after 40 s", LOST, _lose, _return, 40),
        Failure("everything stopped (SIGSTOP) for 45 s", LOST, _stop_all, _go_on_all, 45),
        Failure("Patroni alone stopped for 45 s", LOST, _stop_patroni, _go_on_patroni, 45),
        Failure("etcd stopped for all, 40 s", 0.0, _stop_stores, _go_on_stores, 40, moves=False),
        Failure("a standby rebuilt", PLANNED, _rebuild, _nothing, 10, moves=False),
    ]


def of(network: Namespaces) -> list[Failure]:
    """Failures that need networks which can be cut."""

    def cut(*networks: str) -> Act:
        async def act(_: Cluster, leader: str) -> None:
            for one in networks:
                network.cut(leader, one)

        return act

    def join(*networks: str) -> Act:
        async def act(_: Cluster, leader: str) -> None:
            for one in networks:
                network.join(leader, one)

        return act

    both = ("etcd", "peers")
    return [
        Failure("leader cut from etcd for 40 s", 0.0, cut("etcd"), join("etcd"), 40, moves=False),
        Failure("leader cut from etcd and its peers, 45 s", LOST, cut(*both), join(*both), 45),
        Failure("machine lost: cut from all, 45 s", LOST, cut(*both, "clients"), join(*both, "clients"), 45),
    ]
