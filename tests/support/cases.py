"""Parametrised cases as a table: by their names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


def named(cases: Mapping[str, tuple[object, ...]]) -> list[object]:
    """The arguments of each case, by the name that a report shows."""
    return [pytest.param(*arguments, id=name) for name, arguments in cases.items()]
