"""Questions that several graph passes ask: is a value constant, which movements cost nothing in memory."""
