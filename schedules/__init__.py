"""mlc.schedules."""
