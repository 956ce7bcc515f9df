"""Files are written whole or not at all, whatever the disk does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
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


def test_file_size_limit_of_the_system_loses_nothing(tmp_path: Path) -> None:
    # A real write that fails half way: the kernel lets this process write 1000 bytes to a file.
    script = f"""
        import resource, signal, sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from perfgate.model.errors import StoreFailed
        from perfgate.store import Store
        from support import records

        store = Store(Path({str(tmp_path)!r}), "baselines")
        old = records.baseline()
        store.baselines.save(old, replacing=None)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            store.baselines.save(records.baseline(reason="new"), replacing=old)
        except StoreFailed as error:
            print(error.fact)
        print(store.baselines.load("nvidia-h200", "mlp") == old)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("it could not be written (File too large)\nTrue\n", "")
    assert [file.name for file in (tmp_path / "baselines" / SLUG).iterdir()] == ["mlp.json"]
