"""The parts of mlc-opt."""
