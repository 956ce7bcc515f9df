"""Student's t and binomial coefficients, from SciPy: loaded by the first number that needs it."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray


def stdtr(df: ArrayLike, t: ArrayLike) -> NDArray[np.float64]:
    """How probable a value of Student's t up to `t` is."""
    return np.asarray(_scipy().stdtr(df, t))


def stdtrit(df: ArrayLike, p: ArrayLike) -> NDArray[np.float64]:
    """Return the quantile of Student's t."""
    return np.asarray(_scipy().stdtrit(df, p))


def nctdtrit(df: ArrayLike, nc: ArrayLike, p: ArrayLike) -> NDArray[np.float64]:
    """Return the quantile of the noncentral t."""
    return np.asarray(_scipy().nctdtrit(df, nc, p))


def comb(of: ArrayLike, number: ArrayLike) -> NDArray[np.float64]:
    """How many ways there are to choose so many."""
    return np.asarray(_scipy().comb(of, number))


def _scipy() -> ModuleType:
    from scipy import special  # noqa: PLC0415 - a quarter of what a gate would wait for at its start

    return special
