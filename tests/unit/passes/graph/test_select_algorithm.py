"""graph-select-algorithm: what the choice between Winograd and the direct sum knows of a convolution."""

from dataclasses import replace

import numpy as np
import pytest

from mlc.passes.graph.select_algorithm.shapes import Shape, part_inside
from mlc.targets.target import Target

ZEN5 = Target.parse("znver5")


@pytest.mark.parametrize("padding", [(1, 1, 1, 1), (0, 0, 0, 0), (0, 1, 2, 0), (2, 2, 2, 2), (1, 0, 0, 2)])
@pytest.mark.parametrize("size", [(4, 4), (5, 9), (6, 5)])
def test_products_inside_of_the_picture_are_counted(padding: tuple[int, ...], size: tuple[int, int]) -> None:
    """The sums of a picture of ones, by a window of ones."""
    top, left, bottom, right = padding
    rows, columns = size[0] + 2 - top - bottom, size[1] + 2 - left - right
    padded = np.pad(np.ones((rows, columns)), ((top, bottom), (left, right)))
    sums = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).sum((2, 3))
    assert sums.shape == size
    assert part_inside(padding, size) == pytest.approx(sums.sum() / (9 * sums.size))


def test_small_pictures_of_many_channels_are_summed_directly() -> None:
    """The weights of Winograd's transforms, four times as many bytes, come from memory, which threads share."""
    small = Shape(1, (4, 4), (32, 16), (32, 16), part_inside((1, 1, 1, 1), (4, 4)))
    assert [small.choose(ZEN5, threads, 16.0) for threads in (1, 2)] == [0, 0]
    large = replace(small, size=(28, 28), inside=part_inside((1, 1, 1, 1), (28, 28)))
    assert large.choose(ZEN5, 1, 16.0) == 4
