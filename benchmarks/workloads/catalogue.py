"""All kinds: importing this module fills `KINDS`."""

from . import chains, convolutions, movement, narrow, products, reductions, sequences, transformers
from .kind import KINDS, Drawn, Kind

FAMILIES = (convolutions, chains, products, transformers, movement, reductions, sequences, narrow)
"""The modules that define the kinds."""

__all__ = ["FAMILIES", "KINDS", "Drawn", "Kind"]
