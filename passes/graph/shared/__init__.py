"""Analyses that several graph passes share: which values are constant, which data movements are views."""
