"""In charge of Prometheus' format: the snapshots of processes become one page. The one module that knows its library,
which is loaded only where a page is asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import Metric, ProcessCollector
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from keyrack.core.metrics.instruments import Snapshot

PROCESS = "process"  # the label of the process, by its place: "0", "1" ...
GZIP = 31  # of zlib: with gzip's head


class MetricsPage:
    """One page: `add` snapshots to it, then take its `text`."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}
        self._processes: list[tuple[str, int]] = []

    def add(self, snapshot: Snapshot, process: str | None = None, pid: int | None = None) -> None:
        """Show a snapshot: that of a process, by its place and its id, or of what is told once for all of them."""
        for metric in snapshot:
            family = self._families.get(metric["name"])
            if family is None:
                labels = [*([PROCESS] if process is not None else []), *metric["labels"]]
                family = self._families[metric["name"]] = _family(metric, labels)
            for values, value in metric["series"]:
                labels = [*([process] if process is not None else []), *values]
                if metric["kind"] == "histogram":
                    family.add_metric(labels, _buckets(metric["bounds"], value[0]), value[1])
                else:
                    family.add_metric(labels, value)
        if process is not None and pid is not None:
            self._processes.append((process, pid))

    def collect(self) -> Iterable[Metric]:
        """The families, as the library takes them."""
        yield from self._families.values()
        yield from _of_system(self._processes)

    def text(self, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
        """The page in the form that these headers of a request, whose names are in lower case, ask for; and the headers
        of the answer."""
        encode, media_type = choose_encoder(headers.get("accept", ""))
        page: bytes = encode(self)  # pyright: ignore[reportArgumentType] - anything that collects will do
        response_headers = {"content-type": media_type, "vary": "Accept, Accept-Encoding"}
        if gzip_accepted(headers.get("accept-encoding", "")):
            return zlib.compress(page, 1, GZIP), response_headers | {"content-encoding": "gzip"}
        return page, response_headers


def _family(metric: dict[str, Any], labels: list[str]) -> Any:
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    return kinds[metric["kind"]](metric["name"], metric["help"], labels=labels)


def _buckets(bounds: list[float], counts: list[int]) -> list[tuple[str, float]]:
    """Cumulative, as the format wants them."""
    names = [*(f"{bound:g}" for bound in bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]


def _of_system(processes: Iterable[tuple[str, int]]) -> Iterable[Metric]:
    """What the system tells of processes: processor, memory, files, when they began."""
    families: dict[str, Metric] = {}
    for place, pid in processes:
        for metric in ProcessCollector("keyrack", pid=lambda pid=pid: pid, registry=None).collect():
            family = families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            for sample in metric.samples:
                family.add_sample(sample.name, {PROCESS: place, **sample.labels}, sample.value)
    return families.values()
