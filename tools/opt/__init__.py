"""The parts of mlc-opt: arguments, printing, diagnostics that are expected, limits, user files, reproducers."""
