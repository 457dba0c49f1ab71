"""Passes that change how exactly a value is computed: narrow floats, bytes, approximations, legal types."""
