"""Which files are the code of a run, and their digests."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from support.runs import command

from perfgate.running.code import code_now, command_code


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a few files, in no repository."""
    root = tmp_path / "project"
    for name in ("train.py", "model.py", "config.toml", "examples/data.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, encoding="utf-8")
    return root


def tracked(root: Path, *names: str) -> None:
    for words in (("init", "-q"), ("add", *names)):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def test_the_code_of_a_command_is_what_it_names_and_what_the_repository_tracks(project: Path) -> None:
    tracked(project, "train.py", "examples/data.py")
    assert command_code(command("python", "train.py", "config.toml", "--fast"), project) == {
        "config.toml": sha("config.toml"),
        "examples/data.py": sha("examples/data.py"),
        "train.py": sha("train.py"),
    }


def test_outside_a_repository_the_code_is_what_the_command_names(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert command_code(command("python", "train.py"), project) == {"train.py": sha("train.py")}


def test_without_git_the_code_is_what_the_command_names(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    assert command_code(command("python", "train.py"), project) == {"train.py": sha("train.py")}


def test_outside_a_repository_what_was_loaded_is_code_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    told = command_code(command("python", "train.py"), project, {project / "model.py"})
    assert told == {"model.py": sha("model.py"), "train.py": sha("train.py")}


def test_outside_a_repository_what_the_runs_have_written_is_no_code(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    generated = project / "cache" / "ab" / "cdef.py"
    generated.parent.mkdir(parents=True)
    generated.write_text("")
    os.utime(generated, (1001, 1001))
    os.utime(project / "model.py", (999, 999))
    loaded = {project / "model.py", generated, project / "gone.py"}
    assert command_code(command("python"), project, loaded, 1000) == {"model.py": sha("model.py")}


def test_in_a_repository_what_was_loaded_and_is_not_tracked_is_no_code(project: Path) -> None:
    """It may be generated: another file in each run."""
    tracked(project, "train.py")
    loaded = {project / "train.py", project / "model.py", project / "examples" / "data.py"}
    assert command_code(command("python"), project, loaded) == {"train.py": sha("train.py")}
    told = command_code(command("python", "model.py"), project, loaded)
    assert told == {"model.py": sha("model.py"), "train.py": sha("train.py")}


def test_words_are_looked_up_where_the_command_runs(project: Path) -> None:
    tracked(project)
    assert command_code(command("python", "data.py", cwd="examples"), project) == {
        "examples/data.py": sha("examples/data.py")
    }


def test_files_outside_the_root_are_no_code_of_the_project(project: Path) -> None:
    tracked(project)
    outside = project.parent / "outside.py"
    outside.write_text("x")
    (project / "link.py").symlink_to(outside)
    assert command_code(command("python", str(outside), "../outside.py", "link.py"), project) == {}


def test_words_that_cannot_be_files_are_passed_over(project: Path) -> None:
    tracked(project)
    assert command_code(command("bash", "-c", "python train.py; " * 1000, "", "/", "."), project) == {}


def test_a_tracked_file_that_was_deleted_is_passed_over(project: Path) -> None:
    tracked(project, "train.py", "model.py")
    (project / "model.py").unlink()
    assert command_code(command("python"), project) == {"train.py": sha("train.py")}


def test_the_code_of_now_is_of_the_same_files(project: Path) -> None:
    then = {"train.py": sha("before"), "gone.py": sha("gone"), "model.py": sha("model.py")}
    assert code_now(then, project) == {"train.py": sha("train.py"), "model.py": sha("model.py")}
