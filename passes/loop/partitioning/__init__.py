"""
loop-partition and its parts: loops are split, versioned and clipped until their main part has no predicate and no mask.

    partition          the pass: splits at the bounds that predicates give, in rounds
    cuts               the two rewrites: a loop's range in two, and versions of a body
    ragged             the last tile of a symbolic size
    predicate_tails    whole tiles at the end of an axis: predicated accesses instead of versions
    clip, clip_bands   iterations that add nothing: padding of reductions, masked blocks of scores
    skip_taps          iterations that read nothing but the zeros of a padded copy
    mask_cuts          masks of loads, decided by where the loop is
    edges              versions of a body of symbolic extent: inside of a picture, and at its edges
    masked_operands    masks that change nothing, as predicates
"""
