"""A buffer seen in another shape is the same memory, with each NumPy that the course runs on."""

import numpy as np
import pytest

from course.simulating.shared_memory import _reshaped


def test_a_view_of_another_shape_shares_memory():
    array = np.zeros((4, 6))
    _reshaped(array, (2, 2, 6))[1, 0, 3] = 7
    assert array[2, 3] == 7


def test_a_shape_that_would_take_a_copy_is_refused():
    with pytest.raises(ValueError, match="cannot be seen as"):
        _reshaped(np.zeros((4, 6)).T, (24,))
