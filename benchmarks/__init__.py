import os

from keyrack.db.encryption import master_keys

# The measured servers share one database, so they need its master key
os.environ.setdefault("KEYRACK_MASTER_KEY", master_keys.new().text)

# Triggers of the change log reject writes without an actor
ACTOR = '{"type": "operator", "name": "benchmarks"}'
