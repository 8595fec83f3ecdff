"""The metrics reference: docs/metrics.md and the same as data."""

from __future__ import annotations

from typing import Any

from keyrack.core.metrics.catalog import OF_PROCESS, OF_SERVER, OF_SYSTEM
from keyrack.core.metrics.instruments import Histogram, Instrument

HEAD = """# Metrics

`keyrack metrics --markdown` generates this page. [Metrics](monitoring.md#metrics) describes how to enable and use them.

- Every process has its own series. The label `process` is `"0"` for a single process, otherwise the index of the child.
  The counters of a restarted process begin at 0.
- Metrics of the database appear once and have no label `process`. With [cells](scaling.md), they appear once for each
  cell, with its name in the label `cell`.
- Durations are histograms in seconds, with series that end in `_bucket`, `_sum` and `_count`.

"""


def metrics_json() -> list[dict[str, Any]]:
    """The metrics as data."""
    rows = [_row(instrument, ("process",)) for instrument in OF_PROCESS] + [
        _row(instrument) for instrument in OF_SERVER
    ]
    return rows + [{"name": name, "kind": kind, "labels": ["process"], "help": help} for name, kind, help in OF_SYSTEM]


def _row(instrument: Instrument, labels: tuple[str, ...] = ()) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": instrument.name,
        "kind": instrument.kind,
        "labels": [*labels, *instrument.labels],
        "help": instrument.help,
    }
    return row | ({"buckets": list(instrument.bounds)} if isinstance(instrument, Histogram) else {})


def metrics_markdown() -> str:
    """docs/metrics.md."""
    lines = ["| Name | Type | Labels | Description |", "|---|---|---|---|"]
    for row in metrics_json():
        labels = ", ".join(f"`{label}`" for label in row["labels"])
        lines.append(f"| `{row['name']}` | {row['kind']} | {labels} | {row['help']} |")
    return HEAD + "\n".join(lines) + "\n"
