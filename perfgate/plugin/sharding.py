"""`--perfgate-shard` and `--perfgate-label`: which part of the workloads this gate measures, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import pytest

from perfgate.model.shard import Shard
from perfgate.plugin.refusals import usage_error

LONGEST_LABEL: Final = 100
"""Characters; it is shown beside every workload of a merged gate."""
LONGEST_SHOWN: Final = 100
"""Characters of a value in its error."""


def shard_of(config: pytest.Config) -> Shard | None:
    """Which part of the workloads was asked for.

    Raises:
        pytest.UsageError: it is none.
    """
    given = config.getoption("perfgate_shard")
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise usage_error(
            f"--perfgate-shard: the value is {_shown(given)}. It should be I/N: the I-th, from 1, of N parts.\n"
            "Correct it."
        )
    return Shard(index=int(found[1]), of=int(found[2]))


def label_of(config: pytest.Config) -> str:
    """What this gate is called among others; empty where nothing was said.

    Raises:
        pytest.UsageError: it is no line of text that can be shown.
    """
    given = config.getoption("perfgate_label")
    if given is None:
        return ""
    label = str(given)
    if not label.strip() or not label.isprintable() or len(label) > LONGEST_LABEL:
        raise usage_error(
            f"--perfgate-label: the value is {_shown(label)}. "
            f"It should be 1 to {LONGEST_LABEL} characters that can be seen.\nCorrect it."
        )
    return label


def _shown(value: str) -> str:
    more = len(value) - LONGEST_SHOWN
    return repr(value) if more <= 0 else f"{value[:LONGEST_SHOWN]!r} and {more} characters more"


def refuse_empty(shard: Shard | None, workloads: Collection[str]) -> None:
    """Refuse so many shards that some of them would measure nothing.

    Raises:
        pytest.UsageError: there are more shards than workloads; where there is no workload, pytest says so itself.
    """
    if shard is not None and 0 < len(workloads) < shard.of:
        are, shards = f"are {len(workloads)} workloads", f"{len(workloads)} shards"
        if len(workloads) == 1:
            are, shards = "is 1 workload", "1 shard"
        raise usage_error(
            f"--perfgate-shard: the value is '{shard}', and there {are}. Some shards would measure nothing.\n"
            f"Ask for {shards} at most."
        )
