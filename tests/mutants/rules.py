"""All mutation operators: importing this registers them."""

import graph_rules
import structure_rules

__all__ = ["graph_rules", "structure_rules"]
