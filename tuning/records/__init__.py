"""What was measured: the database of a tuner, records in and out, and the context that compiles with them."""
