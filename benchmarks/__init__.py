import os

from keyrack.vault import master

# The servers that are measured share one database, so the key to its secrets is given
os.environ.setdefault("KEYRACK_MASTER_KEY", master.new().text)
