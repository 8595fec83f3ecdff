"""`make bench`: the tables of docs/performance.md."""

import os
import sys

from benchmarks import foundation, outcomes, query, telemetry
from keyrack.vault import master

PARTS = {"foundation": foundation.main, "query": query.main, "outcomes": outcomes.main, "telemetry": telemetry.main}

os.environ.setdefault("KEYRACK_MASTER_KEY", master.new().text)
for name in sys.argv[1:] or PARTS:
    PARTS[name]()
