"""IR text: lexing, parsing with places, printing, and the fast paths for operations that repeat."""
