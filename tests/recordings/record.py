"""The command that records: `python -m tests.recordings.record`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.recordings import callers, console, failures, headers, lifecycles, queries
from tests.recordings.bench import Bench
from tests.recordings.cast import Cast
from tests.recordings.exchanges import DATA, Exchange, write
from tests.recordings.fleet import Fleet
from tests.recordings.installation import Installation
from tests.recordings.receiver import Receiver
from tests.recordings.session import Session

# In this order: reads come first, removals last
SERIES = (queries, callers, failures, headers, lifecycles, console)


def record() -> list[Exchange]:
    """All exchanges with a new installation, in order."""
    with Installation() as installation, Receiver() as receiver:
        session = Session(installation)
        cast = Cast(session)
        fleet = Fleet(session, cast, receiver.address)
        bench = Bench(session, cast, fleet)
        for series in SERIES:
            started, before = time.monotonic(), len(session.exchanges)
            series.run(bench)
            seconds = time.monotonic() - started
            print(f"{series.__name__}: {len(session.exchanges) - before} in {seconds:.1f} s", file=sys.stderr)
        return session.exchanges


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the requests that tests replay.")
    parser.add_argument("--directory", type=Path, default=DATA, help="where the recording goes")
    parser.add_argument("--whole", action="store_true", help="keep long bodies whole, to compare two recordings")
    arguments = parser.parse_args()
    exchanges = record()
    write(exchanges, arguments.directory, is_whole=arguments.whole)
    count = Counter(each.file for each in exchanges)
    print(f"{count.total()} exchanges in {len(count)} files of {arguments.directory}")


if __name__ == "__main__":
    main()
