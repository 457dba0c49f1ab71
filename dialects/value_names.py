"""Valid `name_hint`s of values: names that xDSL accepts, and that copies and the printed text keep."""

from __future__ import annotations

import re
from functools import lru_cache

from xdsl.ir import SSAValue

_NUMBERS = re.compile(r"(?:_\d+)+$")


@lru_cache(maxsize=4096)
def value_name(name: str | None) -> str | None:
    """
    The `name_hint` of a value that is to be called `name`; None where nothing is left of the name.

    xDSL takes one number at the end, such as `_1`, from each name that it is given, that of a value it copies too,
    refuses a name that is then empty, and puts such numbers behind names that occur twice. So all of them go here.
    """
    if name is None:
        return None
    if not SSAValue.is_valid_name(name):
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
    name = _NUMBERS.sub("", name)
    return name if SSAValue.is_valid_name(name) else None
