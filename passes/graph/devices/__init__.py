"""The devices of values: what a person demands, the copies between devices, the memory that values are in."""
