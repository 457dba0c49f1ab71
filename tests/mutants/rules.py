"""All mutation operators: importing this registers them."""

import graph_rules
import legality_rules
import loop_rules
import memory_rules
import native_rules
import structure_rules
import te_rules

__all__ = ["graph_rules", "legality_rules", "loop_rules", "memory_rules", "native_rules", "structure_rules", "te_rules"]
