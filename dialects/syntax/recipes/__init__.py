"""
Fast paths of the parser for operations and functions whose text repeats an earlier one's but for names and numbers.

In: the text of an operation or a function, and the recipes learned from earlier ones. Out: the operations that the
parser would have made, or nothing, and the parser reads the text.
"""
