"""Which of the loaded modules are the project's code."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import perfgate
from perfgate.execute.worker import loaded_code

Load = Callable[[str, object], None]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_loaded_code_is_the_projects_files_among_the_modules(tmp_path: Path, load: Load) -> None:
    for name in ("model.py", "workloads/mlp.py", "unloaded.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    load("a_model", str(tmp_path / "model.py"))
    load("a_workload", str(tmp_path / "workloads" / "mlp.py"))
    load("elsewhere", str(tmp_path.parent / "other.py"))
    assert loaded_code(tmp_path) == {
        "model.py": sha("model.py"),
        "workloads/mlp.py": sha("workloads/mlp.py"),
    }
    assert list(loaded_code(tmp_path)) == ["model.py", "workloads/mlp.py"]


def test_what_perfgate_keeps_in_a_project_is_not_its_code(tmp_path: Path, load: Load) -> None:
    kept = tmp_path / ".perfgate" / "results" / "witnesses" / "sitecustomize.py"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    load("sitecustomize", str(kept))
    assert loaded_code(tmp_path) == {}
    assert loaded_code(kept.parent) == {"sitecustomize.py": sha("x")}


def test_loaded_code_is_also_what_is_vendored_in_a_folder_named_as_that_of_installed_packages(
    tmp_path: Path, load: Load
) -> None:
    for name in ("vendor/site-packages/eng.py", "other/site-packages/x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
        load(name, str(tmp_path / name))
    assert list(loaded_code(tmp_path, ("vendor/site-packages",))) == ["vendor/site-packages/eng.py"]
    assert loaded_code(tmp_path) == {}


def test_loaded_code_is_found_through_links(tmp_path: Path, load: Load) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "model.py").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    load("linked", str(tmp_path / "link" / "model.py"))
    assert (
        loaded_code(tmp_path / "link") == loaded_code(tmp_path / "real") == {"model.py": sha("x")}
    )


@pytest.mark.parametrize(
    "folder", [".venv/lib/python3.11/site-packages/x", "lib/site-packages", "env/dist-packages"]
)
def test_installed_packages_below_the_project_are_not_its_code(
    tmp_path: Path, load: Load, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "dep.py").write_text("x")
    load("dep", str(tmp_path / folder / "dep.py"))
    assert loaded_code(tmp_path) == {}


@pytest.mark.parametrize("prefix", ["prefix", "base_prefix", "exec_prefix"])
def test_the_interpreters_own_folder_below_the_project_is_not_its_code(
    tmp_path: Path, load: Load, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "env" / "lib" / "json.py").write_text("x")
    load("std", str(tmp_path / "env" / "lib" / "json.py"))
    assert loaded_code(tmp_path) == {"env/lib/json.py": sha("x")}
    monkeypatch.setattr(sys, prefix, str(tmp_path / "env"))
    assert loaded_code(tmp_path) == {}


def test_a_project_that_is_the_interpreters_folder_still_has_code(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "model.py").write_text("x")
    load("model", str(tmp_path / "model.py"))
    assert loaded_code(tmp_path) == {"model.py": sha("x")}


def test_perfgate_is_not_the_code_of_a_project_around_it() -> None:
    package = Path(perfgate.__file__).parent
    assert not [name for name in loaded_code(package.parent) if name.startswith("perfgate/")]


def test_what_is_loaded_from_an_archive_of_the_project_is_told_as_the_archive(
    tmp_path: Path, load: Load
) -> None:
    (tmp_path / "shop.zip").write_text("packed")
    for name in ("shop/__init__.py", "shop/work.py"):
        load(name, str(tmp_path / "shop.zip" / name))
    assert loaded_code(tmp_path) == {"shop.zip": sha("packed")}


def test_modules_without_a_file_that_is_there_are_passed_over(tmp_path: Path, load: Load) -> None:
    load("gone", str(tmp_path / "gone.py"))
    load("namespace", None)
    load("odd", 3)
    assert loaded_code(tmp_path) == {}


def test_lazy_modules_are_not_woken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy:
        """Stands in sys.modules for what it has not imported yet."""

        def __getattr__(self, name: str) -> NoReturn:
            raise ImportError(f"woken up for {name}")

    monkeypatch.setitem(sys.modules, "lazy", Lazy())
    monkeypatch.setitem(sys.modules, "none", None)
    assert loaded_code(tmp_path) == {}
