"""How many bytes an object keeps of what came over a transport."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

NO_DATA = type | ModuleType | FunctionType | BuiltinFunctionType | MethodType


def kept_bytes(root: object) -> int:
    """The length of all `bytes` and `bytearray` reachable from an object."""
    seen: dict[int, object] = {}
    rest = [root]
    while rest:
        each = rest.pop()
        if id(each) not in seen and not isinstance(each, NO_DATA):
            seen[id(each)] = each
            rest += gc.get_referents(each)
    return sum(len(each) for each in seen.values() if isinstance(each, bytes | bytearray))
