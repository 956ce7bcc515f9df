"""What a worker on standby has loaded is out of sight until it is imported as it was loaded, and
none is started where the gate's own import of torch shows that it would not be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from perfgate.execute import torch_first

TORCH = """\
import json, os, sys
import helper
sys.loads = getattr(sys, "loads", 0) + 1
threads = os.environ.get("THREADS")
"""
BODY = """\
import json, sys
%s
import torch, torch.nn, helper
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
print(json.dumps([
    "torch" in seen, any("Early" in str(finder) for finder in sys.meta_path),
    sys.loads, torch.threads, torch.nn.torch is torch,
    sys.modules["torch"] is torch, find_spec("torch").origin == torch.__file__,
    torch.__spec__.loader is torch.__loader__, helper.torch is None,
]))
"""


def ran(folder: Path, before: str, *, words: Sequence[str] = ("x",)) -> tuple[int, str, str]:
    """How a worker ends whose pytest is a program that does something before it imports torch."""
    site = folder / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").write_text(TORCH + "from torch import nn\n", encoding="utf-8")
    (site / "torch" / "nn.py").write_text("import torch\n", encoding="utf-8")
    (site / "helper.py").write_text("torch = None\n", encoding="utf-8")
    seen = "seen = set(sys.modules)\n"
    (site / "pytest.py").write_text(BODY % f"{seen}{before}", encoding="utf-8")
    os.mkfifo(folder / "words")
    says = os.open(folder / "words", os.O_RDWR)
    script = Path(torch_first.__file__)
    try:
        os.write(says, b"[%s]\n" % ",".join(f'"{word}"' for word in words).encode())
        done = subprocess.run(
            [sys.executable, str(script), str(folder / "words")],
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(says)
    return done.returncode, done.stdout, done.stderr


def test_the_workloads_import_finds_what_is_loaded_and_nothing_is_loaded_twice(
    tmp_path: Path,
) -> None:
    status, out, err = ran(tmp_path, "")
    assert (status, err) == (0, "")
    assert out == "[false, false, 1, null, true, true, true, true, true]\n"


OTHER = """\
import pathlib
here = pathlib.Path(__file__).parent / "other"
here.mkdir()
(here / "%s.py").write_text("")
sys.path.insert(0, str(here))
"""


def test_what_is_set_or_found_after_torchs_import_changes_nothing(tmp_path: Path) -> None:
    """As where `torch.compile` sets a variable, and what torch loaded is imported after that."""
    after = "import torch, os; os.environ['THREADS'] = '1'\n"
    status, out, err = ran(tmp_path, after + OTHER % "helper")
    assert (status, err) == (0, "")
    assert out == "[false, false, 1, null, true, true, true, true, true]\n"


@pytest.mark.parametrize(
    "before",
    [
        "import os; os.environ['THREADS'] = '1'",
        "import os; os.sched_getaffinity = lambda _process: {99}",
        OTHER % "torch",
        OTHER % "helper",
    ],
)
def test_a_worker_ends_whose_import_would_be_another_one(tmp_path: Path, before: str) -> None:
    status, out, err = ran(tmp_path, before)
    assert (status, out) == (1, "")
    assert "the same now" in err


def test_a_worker_whose_gate_is_gone_ends(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "words")
    done = subprocess.run(
        [sys.executable, torch_first.__file__, str(tmp_path / "words")],
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
        timeout=60,
    )
    assert done.returncode == 1


class Started:
    """A gate whose workers start as torch is imported."""

    def __init__(self) -> None:
        self.torch: list[torch_first.FirstImport] = []
        self.import_of = torch_first.FirstImport(
            torch_first.seen_now(), list(sys.meta_path), self.torch.append
        )


@pytest.fixture
def unimported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not imported torch."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


class Hook:
    """Finds torch, to load it in a way of its own, as pytest does where it rewrites it."""

    def find_spec(self, name: str, *_of: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        return spec_from_file_location(name, __file__, loader=Rewriting(name, __file__))


class Rewriting(SourceFileLoader):
    """Another loader."""


@pytest.mark.usefixtures("unimported")
@pytest.mark.parametrize("is_imported", [False, True])
def test_none_starts_where_torch_is_loaded_in_another_way(
    monkeypatch: pytest.MonkeyPatch, is_imported: bool
) -> None:
    hook = Hook()
    sys.meta_path.insert(0, hook)
    if is_imported:
        spec = hook.find_spec("torch")
        assert spec is not None
        monkeypatch.setitem(sys.modules, "torch", module_from_spec(spec))
    gate = Started()
    imports_torch()
    assert gate.torch == []


def imports_torch() -> None:
    find_spec("torch")  # asked as an import is


@pytest.mark.usefixtures("unimported")
def test_workers_start_as_torch_is_imported() -> None:
    gate = Started()
    find_spec("torchvision")
    assert gate.torch == []
    imports_torch()
    imports_torch()
    assert gate.torch == [gate.import_of]


@pytest.mark.usefixtures("unimported")
def test_or_at_once_where_a_conftest_has_imported_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("torch", __file__)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "torch", module_from_spec(spec))
    gate = Started()
    assert gate.torch == [gate.import_of]
    assert gate.import_of.serves(__file__)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert not gate.import_of.serves(__file__)


@pytest.mark.usefixtures("unimported")
@pytest.mark.parametrize("change", ["variable", "cores", "import hook"])
def test_none_starts_where_torch_sees_something_else_by_then(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """What a conftest or a workload's file does before: a worker would see it too late."""
    gate = Started()
    if change == "variable":
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
    elif change == "cores":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {99})
    else:
        sys.meta_path.insert(0, Hook())
    imports_torch()
    assert gate.torch == []


@pytest.mark.usefixtures("unimported")
def test_what_changes_later_is_of_no_matter_to_the_file_that_imported_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = Started().import_of
    imports_torch()
    assert torch.serves(__file__)
    assert torch.serves("another.py")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/cache")  # as torch.compile does
    assert torch.serves(__file__)
    assert not torch.serves("another.py")  # which may have set it, and import torch only then
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    sys.meta_path.insert(0, Hook())
    assert torch.serves(__file__)
    assert not torch.serves("another.py")


def test_pytests_own_variables_and_gits_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch_first.seen_now()
    monkeypatch.setenv("PYTEST_VERSION", "9")
    monkeypatch.setenv("GIT_DIR", ".git")
    assert torch_first.seen_now() == before
