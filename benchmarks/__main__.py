"""`make bench`: the tables of docs/performance.md."""

import sys

from benchmarks import batch, compression, conditional, foundation, outcomes, query, telemetry

PARTS = {
    "foundation": foundation.main,
    "conditional": conditional.main,
    "query": query.main,
    "outcomes": outcomes.main,
    "batch": batch.main,
    "telemetry": telemetry.main,
    "compression": compression.main,
}

for name in sys.argv[1:] or PARTS:
    PARTS[name]()
