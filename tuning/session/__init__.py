"""A session: the loop of tuners, farm and database over the tasks of a model, the paired check, and its report."""
