"""`--perfgate-shard` and `--perfgate-label`: which part of the workloads is measured, and its name."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import pytest

from perfgate.model.shard import Shard
from perfgate.plugin.refusals import usage_error

LONGEST_LABEL: Final = 100
"""Characters; it is shown next to every workload of a merged gate."""


def shard_of(config: pytest.Config) -> Shard | None:
    """Return which part of the workloads was asked for.

    Raises:
        pytest.UsageError: it is none.
    """
    given = config.getoption("perfgate_shard")
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise usage_error("shard-invalid", value=given)
    return Shard(index=int(found[1]), of=int(found[2]))


def label_of(config: pytest.Config) -> str:
    """Return what this gate is called among others; empty where nothing was given.

    Raises:
        pytest.UsageError: it is no line of text that can be shown.
    """
    given = config.getoption("perfgate_label")
    if given is None:
        return ""
    label = str(given)
    if not label.strip() or not label.isprintable() or len(label) > LONGEST_LABEL:
        raise usage_error("label-invalid", value=label, longest=LONGEST_LABEL)
    return label


def refuse_empty(shard: Shard | None, workloads: Collection[str]) -> None:
    """Refuse so many shards that some of them would measure nothing.

    Raises:
        pytest.UsageError: there are more shards than workloads, and there are any.
    """
    if shard is not None and 0 < len(workloads) < shard.of:
        raise usage_error("shards-too-many", value=str(shard), workloads=len(workloads))
