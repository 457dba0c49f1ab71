"""The memory pools of a program for model.json."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr

from mlc.dialects.attributes import MAIN_POOLS
from mlc.support.errors import UserError


def checked_pools(main: func.FuncOp, kernel_workspace: int) -> list[dict[str, Any]]:
    """
    The declared pools of @main: name, kind, offset, bytes used, bytes declared.

    What kernels share inside lies behind the intermediates, in the last pool that is in use. Raises UserError where
    that pool has no room for it.
    """
    found = main.attributes.get(MAIN_POOLS)
    pools = (
        [_read(one) for one in found.data if isinstance(one, DictionaryAttr)] if isinstance(found, ArrayAttr) else []
    )
    workspace = [pool for pool in pools if pool["kind"] == "workspace"]
    if not kernel_workspace or not workspace:
        return pools
    last = max((pool for pool in workspace if pool["used"]), key=lambda pool: pool["offset"], default=workspace[0])
    if last["used"] + kernel_workspace > last["bytes"]:
        need = f"{last['used']} bytes of intermediates and {kernel_workspace} bytes that a kernel uses inside"
        raise UserError(f"expected pool '{last['name']}' to have room for {need}, but it has {last['bytes']} bytes")
    last["used"] += kernel_workspace
    return pools


def _read(pool: DictionaryAttr) -> dict[str, Any]:
    values = {key: value.data for key, value in pool.data.items() if isinstance(value, StringAttr)}
    numbers = {key: value.value.data for key, value in pool.data.items() if isinstance(value, IntegerAttr)}
    return {**values, **numbers}


__all__ = ["checked_pools"]
