"""Passes that replace operations by simpler ones with the same values, and constants by their values."""
