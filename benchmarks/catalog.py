"""All benchmarks, for the command, `make bench-tables` and the tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

import structlog


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: a function of a module of this package, and its duration at full size."""

    name: str
    minutes: float  # at full size, on a quiet machine of two cores
    module: str = ""  # default: the one with the benchmark's name
    function: str = "main"

    def run(self) -> None:
        """Print the tables. The import is here, because the module's sizes depend on the process."""
        module = importlib.import_module(f"benchmarks.{self.module or self.name}")
        main: Callable[[], None] = getattr(module, self.function)
        main()


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("foundation", 4),
        Benchmark("conditional", 1),
        Benchmark("query", 4),
        Benchmark("outcomes", 10),
        Benchmark("recording", 2),
        Benchmark("changes", 2),
        Benchmark("feed", 2),
        Benchmark("custody", 10),
        Benchmark("scale", 13),
        Benchmark("batch", 1),
        Benchmark("telemetry", 4),
        Benchmark("location", 14, module="telemetry", function="location"),
        Benchmark("standing", 5, module="telemetry", function="standing"),
        Benchmark("positions", 2),
        Benchmark("availability", 1),
        Benchmark("exclusive", 1),
        Benchmark("compression", 1),
        Benchmark("live", 3),
        Benchmark("keys", 2),
        Benchmark("bluetooth", 1),
        Benchmark("driving", 2),
        Benchmark("limited", 2),
        Benchmark("metrics", 1),
        Benchmark("traces", 2),
        Benchmark("console", 10),
        Benchmark("screen", 2),
        Benchmark("overload", 1),
        Benchmark("replicas", 2),
    )
}


def run_alone(name: str) -> None:
    """Run a benchmark in a separate process. Its log goes to standard error, apart from the tables."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    BENCHMARKS[name].run()
