"""What people look at: highlighted IR, progress bars, times as a tree, counts."""
