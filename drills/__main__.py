"""The commands of the drills: cluster, failover, soak."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from drills import networks
from drills.cluster import DATABASES, STORES, Cluster, NotReady
from drills.failover import QUIET, Outcome, drill
from drills.failures import everywhere, of
from drills.nodes import Keyrack
from drills.programs import Missing, Programs, install
from drills.soak import soak
from drills.verdict import Verdict
from keyrack.core.settings.cells import MAIN
from keyrack.db.embedded.binaries import EmbeddedServerError
from keyrack.db.embedded.server import EmbeddedServer

STATE = Path(os.environ.get("KEYRACK_CLUSTER", "/var/tmp/keyrack-cluster"))  # noqa: S108 - accessible to the cluster's accounts
MISSING = 3  # exit status if the programs cannot be installed
WARNING = """This etcd is 3.5.1 of 2021: good enough for drills, but it can lose data if a member is killed under load.
    These nodes have no watchdog. For your own machines, see docs/high-availability.md."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m drills", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("cluster", help="run a cluster with two API nodes and two workers until Ctrl-C")
    failover = commands.add_parser("failover", help="let machines fail under load, and check that nothing is lost")
    failover.add_argument("--rounds", type=int, default=2, help="number of times that each failure occurs")
    failover.add_argument("--speed", type=float, default=1.0, help="factor of the load")
    failover.add_argument("--only", default="", help="run only failures whose names contain this")
    failover.add_argument("--quiet", type=float, default=QUIET, help="seconds between two failures")
    failover.add_argument("--cells", action="store_true", help="with a second cell, which must not notice the failures")
    soaking = commands.add_parser("soak", help="run a load for a long time, and check for growth")
    soaking.add_argument("--minutes", type=float, default=30.0)
    soaking.add_argument("--speed", type=float, default=1.0, help="factor of the load")
    arguments = parser.parse_args()
    try:
        if arguments.command == "cluster":
            asyncio.run(_cluster(*_prepared(STATE)))
            return 0
        state = STATE.with_name(f"{STATE.name}-{arguments.command}")
        if arguments.command == "soak":
            _forget(state)
            return asyncio.run(soak(state, arguments.minutes, arguments.speed))
        prepared = _prepared(state)
        if not networks.enter():
            print("Skipping network failures: they need root, iproute2 and util-linux.")
        return asyncio.run(_failover(*prepared, arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except Missing as error:
        print(error, file=sys.stderr)
        return MISSING
    except (NotReady, EmbeddedServerError) as error:
        print(error, file=sys.stderr)
        return 1


def _prepared(state: Path) -> tuple[Path, Programs]:
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o711)
    return state, install(state)


async def _cluster(state: Path, programs: Programs) -> None:
    print(WARNING, flush=True)
    _end_at_sigterm()
    cluster = Cluster(state, programs, networks.Here())
    try:
        await cluster.start()
        keyrack = Keyrack(state, {MAIN: cluster.dsn})
        try:
            await keyrack.start()
            print(cluster.ctl("list"), end="")
            print("API nodes:", *keyrack.urls)
            print(f"The database: export KEYRACK_DATABASE_URL='{cluster.dsn}'")
            print(f"The master key: export KEYRACK_MASTER_KEY_FILE={state / 'master.key'}")
            print(f"Logs: {state / 'logs'}", "Stop with Ctrl-C.", sep="\n", flush=True)
            await asyncio.Event().wait()
        finally:
            await keyrack.stop()
    except asyncio.CancelledError:
        pass
    finally:
        await cluster.stop()


async def _failover(state: Path, programs: Programs, arguments: argparse.Namespace) -> int:
    print(WARNING, flush=True)
    _end_at_sigterm()
    _forget(state)
    cut = bool(os.environ.get(networks.INSIDE))
    network = networks.Namespaces(STORES + DATABASES) if cut else networks.Here()
    failures = everywhere() + (of(network) if isinstance(network, networks.Namespaces) else [])
    chosen = [failure for failure in failures if arguments.only in failure.name] * arguments.rounds
    cluster = Cluster(state, programs, network)
    with _main_cell(state, arguments.cells) as main:
        try:
            await cluster.start()
            outcomes, verdicts = await drill(cluster, state, chosen, arguments.speed, arguments.quiet, main)
        finally:
            await cluster.stop()
            network.close()
    return _say(outcomes, verdicts)


@contextmanager
def _main_cell(state: Path, has_cells: bool) -> Iterator[str | None]:
    """The address of an embedded server for cell 0, which runs meanwhile. None without cells."""
    if not has_cells:
        yield None
        return
    with EmbeddedServer(state / "database") as server:
        yield server.dsn


def _end_at_sigterm() -> None:
    """Treat SIGTERM like Ctrl-C: stop all programs in order."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _forget(state: Path) -> None:
    """Delete the data of an earlier drill."""
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o711)
    for name in (*DATABASES, *STORES, "logs", "database"):
        shutil.rmtree(state / name, ignore_errors=True)
    (state / "passwords.json").unlink(missing_ok=True)


def _say(outcomes: Sequence[Outcome], verdicts: Mapping[str, Verdict]) -> int:
    has_cells = len(verdicts) > 1
    more = " Other cell without answers, s |" if has_cells else ""
    print(f"\n| Failure | No writes, s | Goal, s | No reads, s | New primary | Recovered after, s |{more}")
    print("|---" * (7 if has_cells else 6) + "|")
    for one in outcomes:
        goal = f"{one.failure.goal:g}" if one.failure.goal else "none"
        moved = "yes" if one.moved else "no"
        more = "" if one.gap is None else f" {one.gap:.1f} |"
        print(f"| {one.failure.name} | {one.writes:.1f} | {goal} | {one.reads:.1f} | {moved} | {one.whole:.0f} |{more}")
    for cell, verdict in verdicts.items():
        print(f"\nCell {cell}:" if has_cells else "")
        for what, number in verdict.told.items():
            print(f"{number:>8}  {what}")
        for wrong in verdict.wrong:
            print(f"WRONG: {wrong}")
    return int(any(verdict.wrong for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
