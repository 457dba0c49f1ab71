"""The instruments of `mlc.PassContext(instruments=[...])`: see driver/pipeline/instruments.py."""

from mlc.driver.pipeline.instruments import DumpIR, Timing, Veto, validating

__all__ = ["DumpIR", "Timing", "Veto", "validating"]
