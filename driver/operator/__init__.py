"""One operator: `mlc.build` and `mlc.lower`, what they take, the arguments and binds of what they give."""
