"""`make bench`: the tables of docs/performance.md."""

import sys

from benchmarks import foundation, outcomes, query

PARTS = {"foundation": foundation.main, "query": query.main, "outcomes": outcomes.main}

for name in sys.argv[1:] or PARTS:
    PARTS[name]()
