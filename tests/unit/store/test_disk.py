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
@pytest.mark.parametrize(
    ("number", "fact", "next_step"),
    [
        (
            errno.ENOSPC,
            "the disk is full",
            "Free some space (old captures lie under .perfgate/results), then run again.",
        ),
        (
            errno.EDQUOT,
            "the disk quota is used up",
            "Free some space (old captures lie under .perfgate/results), then run again.",
        ),
        (
            errno.EACCES,
            "this user may not write there",
            "Make the folder writable for this user, then run again.",
        ),
        (errno.EROFS, "the file system is read-only", "Run where the project can be written to."),
        (errno.EIO, "it could not be written (Input/output error)", "See to it, then run again."),
    ],
)
def test_failing_disk_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str, number: int, fact: str, next_step: str
) -> None:
    old = records.baseline()
    path = store.baselines.save(old, replacing=None)
    with monkeypatch.context() as patched:
        if call == "fsync":
            patched.setattr(os, "fsync", failing(number))
        else:
            patched.setattr(Path, "replace", failing(number))
        with pytest.raises(StoreFailed) as caught:
            store.baselines.save(records.baseline(reason="new"), replacing=old)
    found = (
        f"baselines/nvidia-h200/mlp.json: {fact}. What was there before is unchanged.\n{next_step}"
    )
    assert str(caught.value) == found
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
