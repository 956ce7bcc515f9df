"""Which files are the code of a run, and their digests."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.runs import bench_of, command

from perfgate.execute.code import code_now, code_unsaid, command_code, is_as_blessed
from perfgate.execute.proof import Witness
from perfgate.execute.running import Bench
from perfgate.execute.witness import namespace
from perfgate.model.baseline import ALL_TRACKED, code_digest, code_files

LONG_AGO = 1_000_000_000


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a few old files, in no repository."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "project"
    for name in ("train.py", "model.py", "unused.py", "config.toml", "examples/data.py"):
        write(root / name)
    return root


def write(file: Path) -> None:
    """A file that holds its name, older than any run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(file.name, encoding="utf-8")
    os.utime(file, (LONG_AGO, LONG_AGO))


def git(root: Path, *words: str) -> None:
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *named, *words], cwd=root, check=True, capture_output=True)


def committed(root: Path, *names: str) -> None:
    git(root, "init", "-q")
    git(root, "add", *names)
    git(root, "commit", "-qm", "one")


def of(root: Path, env: Sequence[str] = ("PATH", "GIT_CEILING_DIRECTORIES")) -> Bench:
    return replace(bench_of(root), env={name: os.environ[name] for name in env})


def loading(root: Path, *names: str, pid: int = 7, within: str | None = None) -> Witness:
    files = {name: str(root / name) for name in names}
    return Witness(
        pid=pid, prefixes=(), modules=files, namespace=namespace() if within is None else within
    )


def told(
    root: Path, *words: str, loaded: Sequence[str] = (), cwd: str | None = None
) -> dict[str, str]:
    return command_code(of(root), command(*words, cwd=cwd), [loading(root, *loaded)])


@pytest.mark.parametrize("is_repository", [True, False])
def test_the_code_of_a_command_is_what_it_names_and_what_it_loads(
    project: Path, *, is_repository: bool
) -> None:
    if is_repository:
        committed(project, ".")
    found = told(
        project,
        "python",
        "train.py",
        "config.toml",
        "--fast",
        loaded=("train.py", "model.py", "gone.py"),
    )
    assert found == {
        "config.toml": sha("config.toml"),
        "model.py": sha("model.py"),
        "train.py": sha("train.py"),
    }


@pytest.mark.parametrize(
    "words",
    [
        ("python", "train.py", "--config=config.toml"),
        ("bash", "-c", "exec python train.py --config config.toml"),
        ("bash", "-c", "python train.py --config=config.toml"),
        ("python", "train.py", "@config.toml"),
    ],
)
def test_a_file_is_named_wherever_in_a_word_it_stands(project: Path, words: Sequence[str]) -> None:
    assert "config.toml" in told(project, *words)


def test_a_variable_of_the_workload_names_files_too(project: Path) -> None:
    workload = command("python", env={"CONFIG": "config.toml"})
    assert command_code(of(project), workload, []) == {"config.toml": sha("config.toml")}


def test_what_the_runs_have_written_is_no_code(project: Path) -> None:
    committed(project, ".")
    began = replace(of(project), began_at=LONG_AGO + 10)
    for name in ("cache/ab/cdef.py", "out.json", "model.py"):
        write(project / name)
        os.utime(project / name, (LONG_AGO + 20, LONG_AGO + 20))
    write(project / "new.py")
    loaded = loading(project, "cache/ab/cdef.py", "model.py", "new.py")
    found = command_code(began, command("python", "train.py", "--out", "out.json"), [loaded])
    assert set(found) == {"model.py", "new.py", "train.py"}


def test_words_are_looked_up_where_the_command_runs(project: Path) -> None:
    assert told(project, "python", "data.py", cwd="examples") == {
        "examples/data.py": sha("data.py")
    }


def test_files_outside_the_root_are_no_code_of_the_project(project: Path) -> None:
    outside = project.parent / "outside.py"
    outside.write_text("x")
    (project / "link.py").symlink_to(outside)
    assert (
        told(project, "python", str(outside), "../outside.py", "link.py", loaded=("../outside.py",))
        == {}
    )


def test_words_that_cannot_be_files_are_passed_over(project: Path) -> None:
    assert told(project, "bash", "-c", "python train.py; " * 1000, "", "/", ".", "a'b", "\0") == {}


def test_the_code_of_now_is_of_the_same_files(project: Path) -> None:
    then = {"train.py": sha("before"), "gone.py": sha("gone"), "model.py": sha("model.py")}
    now = code_now(then, project, baselines="baselines")
    assert now == {"train.py": sha("train.py"), "model.py": sha("model.py")}


# Where a process that took steps did not say what it loaded


@pytest.mark.parametrize(
    ("measured", "within", "is_said"),
    [
        ([7], None, True),
        ([], None, False),
        ([7, 8], None, False),
        ([0], None, False),
        ([7], "pid:[1]", False),
    ],
)
def test_a_process_without_a_word_leaves_all_that_is_tracked(
    project: Path, measured: Sequence[int], within: str | None, *, is_said: bool
) -> None:
    committed(project, ".")
    found = code_unsaid(
        of(project), command("./train"), [loading(project, pid=7, within=within)], measured
    )
    assert set(found) == (set() if is_said else {ALL_TRACKED})


def test_all_that_is_tracked_is_the_same_until_anything_is_changed(project: Path) -> None:
    committed(project, ".")

    def now() -> str:
        return code_now({ALL_TRACKED: ""}, project, baselines="baselines")[ALL_TRACKED]

    then = now()
    assert code_unsaid(of(project), command("./train"), [], [1]) == {ALL_TRACKED: then}
    for name in ("out.log", "baselines/h200/mlp.json"):
        write(project / name)
    assert now() == then
    git(project, "add", "baselines")
    git(project, "commit", "-qm", "baselines")
    assert now() == then
    (project / "config.toml").write_text("changed")
    changed = now()
    assert changed != then
    git(project, "commit", "-qam", "committed")
    assert now() == changed
    (project / "config.toml").unlink()
    assert now() not in (then, changed)


def test_without_git_nobody_knows_and_that_is_never_the_same_code(project: Path) -> None:
    found = code_unsaid(of(project), command("./train"), [], [1])
    assert found == {ALL_TRACKED: ""}
    assert code_digest({"train.py": "a", **found}) is None


# A checkout of what was blessed


def test_a_checkout_is_held_to_what_its_commit_holds(project: Path) -> None:
    committed(project, "train.py", "model.py")
    write(project / "_version.py")
    code = {"train.py": sha("train.py"), "_version.py": sha("_version.py"), "ext.so": "e" * 64}
    blessed = code_files(
        {**code, "_version.py": "b" * 64, "ext.so": "f" * 64, "removed.py": "a" * 64}
    )
    assert is_as_blessed(of(project), code, blessed)
    assert not is_as_blessed(of(project), {**code, "train.py": "c" * 64}, blessed)
    assert not is_as_blessed(of(project), {**code, "model.py": sha("model.py")}, blessed)
