"""Records of tuning for mlc, which finds them by the entry point group `mlc.records`."""

from pathlib import Path

from mlc.tuning.records.package import packaged

records = packaged(Path(__file__).with_name("records.json"))
