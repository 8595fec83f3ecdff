"""A second implementation: python-cwt verifies messages that a server has signed.

It runs in the environment of `make test-clients`, which has no Keyrack.

Standard input: [{"message": base64, "key": {"x": base64, "y": base64}, "kid": base64}]. Output: for each message the
numbers of the payload's claims, or null if it is not valid.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from cbor2 import loads
from cwt import COSE, COSEKey


def judged(message: dict[str, Any]) -> list[int] | None:
    key = {name: base64.b64decode(message["key"][name]) for name in ("x", "y")}
    named = {1: 2, 2: base64.b64decode(message["kid"]), 3: -7, -1: 1, -2: key["x"], -3: key["y"]}
    try:
        payload = COSE.new(verify_kid=True).decode(base64.b64decode(message["message"]), COSEKey.new(named))
    except Exception as error:
        print(repr(error), file=sys.stderr)
        return None
    return sorted(loads(payload))


print(json.dumps([judged(message) for message in json.load(sys.stdin)]))
