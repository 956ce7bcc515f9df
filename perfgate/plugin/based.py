"""What a gate is held to by the branch that its change is for, as `perfgate github gate` has found out."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from pydantic import ValidationError

from perfgate.gate import Closing
from perfgate.model.loosening import Base
from perfgate.model.machine import Machine
from perfgate.model.note import Severity, quoted
from perfgate.model.workflows import APPROVAL
from perfgate.render.loosening import told_loosening


def base_of(config: pytest.Config) -> Base | None:
    """What `--perfgate-base` names; None without it.

    Raises:
        pytest.UsageError: it cannot be read.
    """
    file = config.getoption("perfgate_base")
    if file is None:
        return None
    try:
        return Base.model_validate_json(Path(file).read_bytes())
    except (OSError, ValidationError) as broken:
        raise pytest.UsageError(
            f"--perfgate-base: {file} cannot be read. Leave it out."
        ) from broken


def with_base(
    closing: Closing,
    base: Base | None,
    *,
    machine: Machine | None,
    known: Collection[str],
    asks: bool,
) -> Closing:
    """Keep a gate shut that was loosened, or that has not measured what the base branch has a baseline of.

    Args:
        closing: what the gate has come to by itself.
        base: what is known of the base branch.
        machine: where it was measured.
        known: the workloads that were judged here, and that other shards judge.
        asks: whether this gate of several says it.
    """
    if base is None:
        return closing
    shut = [told_loosening(base.loosening, label=APPROVAL)] if base.loosening.shuts else []
    expected = base.expected.get(machine.slug, ()) if machine is not None and asks else ()
    named = tuple(f"{name}: " for name in expected if name not in known)
    shut += [
        f"{one}{base.loosening.base} has a baseline of it for this machine, and it was not measured"
        for one in named
        if not any(sentence.startswith(one) for sentence in closing.shut_by)
    ]
    return closing.but(*(quoted(one, Severity.INVALID) for one in shut))
