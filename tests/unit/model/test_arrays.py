"""Whether what is done for millions of numbers gives what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.arrays import among, constant, distinct, is_constant

DTYPES = (np.int8, np.int32, np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_what_occurs_is_what_numpy_says(dtype: type[np.signedinteger], data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    each = st.one_of(st.integers(-5, 5), st.integers(int(limits.min), int(limits.max)))
    values = np.array(data.draw(st.lists(each, max_size=30)), dtype)
    others = np.array(data.draw(st.lists(each, max_size=30)), dtype)
    if data.draw(st.booleans()):
        values = np.sort(values)
    found = distinct(values)
    assert found.dtype == dtype
    assert found.tolist() == sorted(set(values.tolist()))
    assert among(values, others).tolist() == [
        one in set(others.tolist()) for one in values.tolist()
    ]
    assert is_constant(values) == (len(set(values.tolist())) < 2)


def test_one_value_takes_no_room() -> None:
    assert constant(np.int64(7), 1000).strides == (0,)
