"""Names of metrics."""

from __future__ import annotations

from keyrack.core.metrics.catalog import OF_PROCESS, OF_SERVER


def test_each_metric_has_a_family_of_its_own() -> None:
    """OpenMetrics names the family of a counter without `_total`: a gauge of that name would share it."""
    families = [instrument.name.removesuffix("_total") for instrument in (*OF_PROCESS, *OF_SERVER)]
    assert sorted(families) == sorted(set(families))
