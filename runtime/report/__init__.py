"""How a profile is shown: a table, a roofline plot, a trace."""
