"""What a program adds to mlc in its own process or by an installed distribution: functions, plugins, memory pools."""
