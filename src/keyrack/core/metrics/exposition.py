"""The metrics page in Prometheus' format, from the snapshots of all processes.

Only this module uses Prometheus' library. It is imported at the first request of the page.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from keyrack.core.metrics.instruments import Snapshot

PROCESS = "process"  # the label with the index of the process: "0", "1" ...
CELL = "cell"  # the label with the name of the cell, if there are cells
GZIP = 31  # `wbits` of zlib: with the header of gzip


class MetricsPage:
    """One page: `add` snapshots to it, then take its `text`."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}
        self._processes: list[tuple[str, int]] = []

    def add(
        self, snapshot: Snapshot, process: str | None = None, pid: int | None = None, cell: str | None = None
    ) -> None:
        """Add the snapshot of a process, or of metrics that all processes share.

        `process` is the index of the process, `pid` its id. `cell` is the name of the cell whose database has the
        values.
        """
        added = {name: value for name, value in ((PROCESS, process), (CELL, cell)) if value is not None}
        for metric in snapshot:
            family = self._families.get(metric["name"])
            if family is None:
                family = self._families[metric["name"]] = _family(metric, [*added, *metric["labels"]])
            for values, value in metric["series"]:
                labels = [*added.values(), *values]
                if metric["kind"] == "histogram":
                    family.add_metric(labels, _buckets(metric["bounds"], value[0]), value[1])
                else:
                    family.add_metric(labels, value)
        if process is not None and pid is not None:
            self._processes.append((process, pid))

    def collect(self) -> Iterable[Metric]:
        """The families, in the interface of Prometheus' library."""
        yield from self._families.values()
        yield from _of_system(self._processes)

    def text(self, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """The page and its response headers, as negotiated by the request headers.

        The names of `headers` are in lower case.
        """
        encode, media_type = choose_encoder(headers.get("accept", ""))
        page: bytes = encode(self)
        response_headers = {"content-type": media_type, "vary": "Accept, Accept-Encoding"}
        if gzip_accepted(headers.get("accept-encoding", "")):
            return zlib.compress(page, 1, GZIP), response_headers | {"content-encoding": "gzip"}
        return page, response_headers


def _family(metric: dict[str, Any], labels: list[str]) -> Any:
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    return kinds[metric["kind"]](metric["name"], metric["help"], labels=labels)


def _buckets(bounds: list[float], counts: list[int]) -> list[tuple[str, float]]:
    """The cumulative counts of the buckets."""
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]


def _of_system(processes: Iterable[tuple[str, int]]) -> Iterable[Metric]:
    """Metrics of the operating system: CPU, memory, files, start time."""
    families: dict[str, Metric] = {}
    for place, pid in processes:
        for metric in ProcessCollector("keyrack", pid=lambda pid=pid: pid, registry=None).collect():
            family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                family.add_sample(sample.name, {PROCESS: place, **sample.labels}, sample.value)
    return families.values()
