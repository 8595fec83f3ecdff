"""The networks of a cluster: all machines on this one, or in network namespaces that can be cut off.

A machine has an address in three networks: of etcd, of its peers, and of clients.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

NETWORKS = ("etcd", "peers", "clients")
INSIDE = "KEYRACK_DRILL_NAMESPACE"  # set if the drill runs in its own network namespace


class Network(Protocol):
    """The addresses of the machines."""

    def address(self, machine: str, network: str) -> str:
        """The machine's address in one of `NETWORKS`."""
        ...

    def prefix(self, machine: str) -> list[str]:
        """The prefix that runs a command on the machine."""
        ...

    def close(self) -> None: ...


class Here:
    """All machines are this one, on different ports."""

    def address(self, machine: str, network: str) -> str:
        return "127.0.0.1"

    def prefix(self, machine: str) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing to close."""


class Namespaces:
    """Each machine is a network namespace, with a bridge for each network. Needs root in an own network namespace."""

    def __init__(self, machines: Sequence[str]) -> None:
        self._machines = list(machines)
        self._holders: dict[str, subprocess.Popen[str]] = {}
        _ip("link", "set", "lo", "up")
        for number, network in enumerate(NETWORKS):
            _ip("link", "add", f"net-{network}", "type", "bridge")
            _ip("address", "add", f"10.99.{number}.254/24", "dev", f"net-{network}")
            _ip("link", "set", f"net-{network}", "up")
        for machine in machines:
            self._add(machine)

    def _add(self, machine: str) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None
        holder.stdout.readline()  # it has now entered its namespace
        self._holders[machine] = holder
        inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "--"]
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        for network in NETWORKS:
            end = self._end(machine, network)
            _ip("link", "add", end, "type", "veth", "peer", "name", network, "netns", str(holder.pid))
            _ip("link", "set", end, "master", f"net-{network}", "up")
            address = f"{self.address(machine, network)}/24"
            subprocess.run([*inside, "ip", "address", "add", address, "dev", network], check=True)
            subprocess.run([*inside, "ip", "link", "set", network, "up"], check=True)

    def address(self, machine: str, network: str) -> str:
        return f"10.99.{NETWORKS.index(network)}.{self._machines.index(machine) + 1}"

    def prefix(self, machine: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[machine].pid}/ns/net", "--"]

    def cut(self, machine: str, network: str) -> None:
        """Drop all packets between the network and the machine, without any notice."""
        _ip("link", "set", self._end(machine, network), "down")

    def join(self, machine: str, network: str) -> None:
        """Undo `cut`."""
        _ip("link", "set", self._end(machine, network), "up")

    def close(self) -> None:
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        for network in NETWORKS:
            subprocess.run(["ip", "link", "del", f"net-{network}"], check=False, capture_output=True)

    def _end(self, machine: str, network: str) -> str:
        return f"{machine}-{network}"


def enter() -> bool:
    """Replace this process by one in its own network namespace. Returns false if that is not possible."""
    if os.environ.get(INSIDE):
        return True
    if _may_enter():
        arguments = ["unshare", "--net", sys.executable, "-m", "drills", *sys.argv[1:]]
        os.execvpe("unshare", arguments, os.environ | {INSIDE: "1"})  # noqa: S606 - this same program
    return False


def _may_enter() -> bool:
    """Whether this is root, and the system allows connected namespaces."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        return False
    trial = ["unshare", "--net", "ip", "link", "add", "x", "type", "veth"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
