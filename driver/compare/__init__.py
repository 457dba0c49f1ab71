"""Two ways of computing the same thing, side by side: `mlc diff`, bisection, interpretation, validated programs."""
