"""`python -m benchmarks`: run benchmarks, and write their tables into the documents."""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.catalog import BENCHMARKS, Benchmark
from benchmarks.measurements import write_run
from benchmarks.sizes import TINY, VARIABLE
from benchmarks.tables import TableError, sections, write


def _benchmark(name: str) -> Benchmark:
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    close = difflib.get_close_matches(name, BENCHMARKS, 1)
    meant = f" Did you mean '{close[0]}'?" if close else ""
    raise argparse.ArgumentTypeError(f"'{name}' is not a benchmark.{meant} `--list` shows all.")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    minutes = sum(benchmark.minutes for benchmark in BENCHMARKS.values())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run benchmarks and print their tables. Each is a process of its own.",
        epilog=f"All of them take about {minutes:.0f} minutes on a quiet machine of two cores.",
    )
    parser.add_argument(
        "benchmarks", nargs="*", type=_benchmark, metavar="NAME", help="a benchmark; all if none is named"
    )
    parser.add_argument("--list", action="store_true", help="show the benchmarks and their minutes")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--write", action="store_true", help="write the tables to their places in benchmarks/ and docs/")
    size.add_argument("--tiny", action="store_true", help="run each at tiny size; its figures mean nothing")
    return parser.parse_args(arguments)


def _run(benchmark: Benchmark) -> str | None:
    """Show the output of a benchmark as it comes, and return it. None if the benchmark failed."""
    command = [sys.executable, "-c", f"from benchmarks.catalog import run_alone; run_alone({benchmark.name!r})"]
    output = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            output += line
    return None if process.returncode else output


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return the exit status: 1 if a benchmark failed or a table could not be written."""
    options = _options(arguments)
    if options.list:
        for benchmark in BENCHMARKS.values():
            print(f"{benchmark.name:<14}{benchmark.minutes:>4.0f} min")
        return 0
    if options.tiny:
        os.environ[VARIABLE] = TINY
    failed: list[str] = []
    tables: dict[str, str] = {}
    for benchmark in options.benchmarks or BENCHMARKS.values():
        begin = time.monotonic()
        output = _run(benchmark)
        took = f"after {(time.monotonic() - begin) / 60:.1f} min"
        print(f"{benchmark.name}: {'failed' if output is None else 'complete'} {took}", file=sys.stderr)
        if output is None:
            failed.append(benchmark.name)
            continue
        tables |= sections(output)
        if options.write:
            try:
                write(sections(output))
            except TableError as error:
                print(f"{benchmark.name}: {error}", file=sys.stderr)
                failed.append(benchmark.name)
    if tables and not options.tiny:
        print(f"The run is in {write_run(tables)}. `make bench-history` draws all runs.", file=sys.stderr)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
