"""Failed connections, in the words of the operating system."""

from __future__ import annotations

import os
import re

# asyncio's message has the address instead of the reason; with several addresses, it has one part for each
_CALL = re.compile(r"\[Errno (\d+)\] Connect call failed \('([^']*)', (\d+)[^)]*\)")
_NUMBER = re.compile(r"\[Errno -?\d+\] |^Multiple exceptions: ")


def connection_failure(error: object) -> str:
    """Why a connection failed, without the number of the error.

    >>> connection_failure(OSError("[Errno 111] Connect call failed ('127.0.0.1', 5432)"))
    'Connection refused at 127.0.0.1, port 5432'
    >>> connection_failure(OSError(111, "Connection refused"))
    'Connection refused'
    """
    text = _CALL.sub(lambda call: f"{os.strerror(int(call[1]))} at {call[2]}, port {call[3]}", str(error))
    return " ".join(_NUMBER.sub("", text).split()) or "no answer"
