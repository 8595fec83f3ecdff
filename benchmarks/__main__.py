"""`make bench`: the tables of docs/performance.md."""

import sys

from benchmarks import foundation

PARTS = {"foundation": foundation.main}

for name in sys.argv[1:] or PARTS:
    PARTS[name]()
