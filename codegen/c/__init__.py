"""The loop dialect as C99, and whole models as C programs."""
