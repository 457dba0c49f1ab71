"""The attributes of a resize, as ONNX's Resize has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResizeRule:
    """How elements of the operand are found and weighted, in the words of ONNX's Resize."""

    mode: str
    """nearest, linear or cubic."""
    coordinates: str
    """The coordinate transformation mode."""
    rounding: str = "round_prefer_floor"
    """How coordinates are rounded in the mode nearest."""
    cubic: float = -0.75
    """The coefficient of Keys' cubic convolution."""
    antialias: bool = False
    exclude_outside: bool = False
    """Whether the taps outside of the operand have the weight 0 (rather than being clamped)."""
    extrapolation: float = 0.0
    """The value of elements outside of the operand, with tf_crop_and_resize."""
