"""`make bench`: the tables of docs/performance.md."""

import sys

from benchmarks import (
    batch,
    changes,
    compression,
    conditional,
    console,
    custody,
    feed,
    foundation,
    keys,
    limited,
    live,
    metrics,
    outcomes,
    overload,
    positions,
    query,
    recording,
    replicas,
    scale,
    screen,
    telemetry,
    traces,
)

PARTS = {
    "foundation": foundation.main,
    "conditional": conditional.main,
    "query": query.main,
    "outcomes": outcomes.main,
    "recording": recording.main,
    "changes": changes.main,
    "feed": feed.main,
    "custody": custody.main,
    "scale": scale.main,
    "batch": batch.main,
    "telemetry": telemetry.main,
    "positions": positions.main,
    "compression": compression.main,
    "live": live.main,
    "keys": keys.main,
    "limited": limited.main,
    "metrics": metrics.main,
    "traces": traces.main,
    "console": console.main,
    "screen": screen.main,
    "overload": overload.main,
    "replicas": replicas.main,
}

for name in sys.argv[1:] or PARTS:
    PARTS[name]()
