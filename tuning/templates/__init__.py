"""Templates: a user's function that writes a schedule, and the space that its configuration spans."""
