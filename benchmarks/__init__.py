import os

from keyrack.db.encryption import master_keys

# The servers that are measured share one database, so the key to its secrets is given
os.environ.setdefault("KEYRACK_MASTER_KEY", master_keys.new().text)

# The triggers of the change log reject what is written without an actor
ACTOR = '{"type": "operator", "name": "benchmarks"}'
