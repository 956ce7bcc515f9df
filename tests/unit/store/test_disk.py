"""Files are written whole or not at all, whatever the disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from support import records
from support.stored import SLUG, failing

from perfgate.model.errors import StoreFailed
from perfgate.store import Store


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failing_disk_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    old = records.baseline()
    path = store.baselines.save(old, replacing=None)
    with monkeypatch.context() as patched:
        patched.setattr(os if call == "fsync" else Path, call, failing(errno.ENOSPC))
        with pytest.raises(StoreFailed) as caught:
            store.baselines.save(records.baseline(reason="new"), replacing=old)
    assert caught.value.code == "disk-failed"
    assert caught.value.fields["path"] == "baselines/nvidia-h200/mlp.json"
    assert store.baselines.load(SLUG, "mlp") == old
    assert [file.name for file in path.parent.iterdir()] == ["mlp.json"]
