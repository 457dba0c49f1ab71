"""What may watch passes, under `mlc.PassContext(instruments=[...])`: see passes/instruments.py."""

from mlc.passes.instruments import DumpIR, Timing, Veto, validating

__all__ = ["DumpIR", "Timing", "Veto", "validating"]
