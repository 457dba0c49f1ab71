"""Tensors as arrays and back, sharing memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mlc.dialects.graph.types import ELEMENT_TYPES
from mlc.support import dtypes
from mlc.support.errors import UserError

DTYPES: dict[torch.dtype, Any] = {getattr(torch, name): dtypes.dtype_of(name) for name in ELEMENT_TYPES}
"""torch's dtype -> numpy's."""
_BFLOAT16 = DTYPES[torch.bfloat16]


def dtype_of(dtype: torch.dtype, what: str) -> Any:
    """numpy's dtype of torch's."""
    if dtype not in DTYPES:
        known = ", ".join(str(one).removeprefix("torch.") for one in DTYPES)
        raise UserError(f"expected {what} of one of the dtypes {known}, but got {str(dtype).removeprefix('torch.')}")
    return DTYPES[dtype]


def to_numpy(tensor: torch.Tensor, what: str = "a tensor") -> Any:
    """The array of a tensor's elements: a view, if the tensor is one of dense memory on the CPU."""
    dtype_of(tensor.dtype, what)
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise UserError(f"expected {what} with dense elements, but got {tensor.layout} on {tensor.device}")
    tensor = tensor.detach().cpu().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_BFLOAT16)
    return tensor.numpy()


def to_torch(array: NDArray[Any]) -> torch.Tensor:
    """The tensor of an array's elements: a view."""
    narrow = array.dtype == _BFLOAT16
    words: NDArray[Any] = array.view(np.int16) if narrow else array
    tensor = torch.from_numpy(words)  # pyright: ignore[reportUnknownMemberType] torch does not type its parameter
    return tensor.view(torch.bfloat16) if narrow else tensor
