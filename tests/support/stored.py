"""Files of a store, as they may be found and as the disk may fail them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import records

from perfgate.model.errors import BaselineUnreadable
from perfgate.store import Store, baseline_text
from perfgate.store.sealed import seal_of

SLUG = "nvidia-h200"


def written(store: Store, content: str | bytes) -> Path:
    """Put a file where the baseline of `mlp` lies."""
    path = store.baselines.path(SLUG, "mlp")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def edited(change: Callable[[dict[str, object]], object], *, sealed: bool) -> str:
    """Return a baseline's file with a change, sealed anew as perfgate would or left with its old
    seal."""
    content: dict[str, object] = json.loads(baseline_text(records.baseline()))
    seal = content.pop("seal")
    change(content)
    return json.dumps(content | {"seal": seal_of(content) if sealed else seal})


def refusal(store: Store) -> BaselineUnreadable:
    with pytest.raises(BaselineUnreadable) as caught:
        store.baselines.load(SLUG, "mlp")
    return caught.value


def failing(number: int) -> Callable[..., object]:
    def fail(*args: object, **kwargs: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail
