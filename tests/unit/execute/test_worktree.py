"""Commits checked out next to a real repository: where they lie, and that they always go."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.repository import Repository

from perfgate.execute.worktree import Worktree, remove_abandoned, set_up, worktree
from perfgate.model.errors import WorktreeFailed
from perfgate.model.note import note
from perfgate.system.files import UNDERWAY
from perfgate.system.process import Listening


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project of two commits."""
    made = Repository(tmp_path / "project")
    made.commit({"train.py": "old\n"})
    made.commit({"train.py": "new\n"})
    return made


@contextmanager
def checked_out(repository: Repository) -> Iterator[Worktree]:
    with worktree(repository.root, "HEAD~1", folder=repository.folder, env=repository.env) as tree:
        yield tree


def test_a_commit_lies_next_to_the_project_for_as_long_as_the_block_lasts(
    repository: Repository,
) -> None:
    repository.write({"train.py": "uncommitted\n"})
    hook = repository.top / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho ran > hook-ran\nexit 1\n")
    hook.chmod(0o755)
    with checked_out(repository) as tree, checked_out(repository) as other:
        assert (tree.root / "train.py").read_text() == "old\n"
        assert tree.top != other.top
        assert tree.commit == repository.git("rev-parse", "HEAD~1")
        assert not (tree.top / "hook-ran").exists()
        assert repository.git("status", "--porcelain") == "M train.py"
    assert repository.left == []


def test_a_gate_started_by_a_hook_asks_about_its_own_project(
    repository: Repository, tmp_path: Path
) -> None:
    env = {**repository.env, "GIT_DIR": str(tmp_path), "GIT_INDEX_FILE": str(tmp_path / "index")}
    with worktree(repository.root, "HEAD~1", folder=repository.folder, env=env) as tree:
        assert (tree.root / "train.py").read_text() == "old\n"
        set_up(
            tree, ("sh", "-c", 'test -z "$GIT_DIR"'), env=env, time_left_s=60, listening=Listening()
        )


# Made ready


def test_the_setup_runs_in_the_checkout_and_knows_the_project(repository: Repository) -> None:
    said: list[str] = []
    words = ("sh", "-c", 'echo "$PERFGATE_COMMIT"; ln -s "$PERFGATE_ROOT/data" data; pwd')
    repository.write({"data/a": "kept"})
    with checked_out(repository) as tree:
        set_up(
            tree,
            words,
            env=repository.env,
            time_left_s=60,
            listening=Listening(on_line=said.append),
        )
        assert said == [tree.commit, str(tree.root)]
        assert (tree.root / "data" / "a").read_text() == "kept"
    assert (repository.root / "data" / "a").read_text() == "kept"


@pytest.mark.parametrize(
    ("words", "time_left_s", "code", "field"),
    [
        (("sh", "-c", "echo one; echo; echo two >&2; exit 3"), 60, "setup-failed", ("status", 3)),
        (("sh", "-c", "kill -9 $$"), 60, "setup-failed", ("status", -9)),
        (("./no-such-program",), 60, "setup-not-started", ("why", "No such file or directory")),
        (("sleep", "60"), 0.5, "setup-timed-out", ("limit_s", 0.5)),
        (("sleep", "60"), -3.0, "setup-timed-out", ("limit_s", 0.0)),
    ],
)
def test_a_setup_that_fails_says_how(
    repository: Repository,
    words: tuple[str, ...],
    time_left_s: float,
    code: str,
    field: tuple[str, object],
) -> None:
    with checked_out(repository) as tree, pytest.raises(WorktreeFailed) as caught:
        set_up(tree, words, env=repository.env, time_left_s=time_left_s, listening=Listening())
    assert caught.value.code == code
    assert field in caught.value.fields.items()
    if field == ("status", 3):
        assert caught.value.fields["output"] == (note("output-tail", lines="one\ntwo"),)


# That they always go


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_the_block_the_worktree_goes(
    repository: Repository, kind: type[BaseException]
) -> None:
    def work() -> None:
        with checked_out(repository) as tree:
            (tree.root / "untracked").mkdir()
            (tree.root / "untracked" / "file").write_text("x")
            (tree.root / "train.py").write_text("changed")
            repository.git("worktree", "lock", str(tree.top))
            raise kind

    with pytest.raises(kind):
        work()
    assert repository.left == []


HOLDING = """\
import time
from pathlib import Path
from perfgate.execute.worktree import worktree
with worktree(Path({root!r}), "HEAD", folder=Path({folder!r}), env={env!r}):
    print("ready", flush=True)
    time.sleep(60)
"""


def holding(repository: Repository) -> subprocess.Popen[str]:
    """A process that holds a worktree."""
    code = HOLDING.format(
        env=repository.env, root=str(repository.root), folder=str(repository.folder)
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
    return process


def test_what_a_killed_gate_left_goes_with_the_next_and_what_a_living_one_holds_stays(
    repository: Repository,
) -> None:
    killed, living = holding(repository), holding(repository)
    killed.kill()
    killed.wait()
    assert len(repository.left) == 4
    with checked_out(repository):
        assert len(repository.left) == 4
    assert len(repository.left) == 2
    living.send_signal(signal.SIGINT)
    living.wait(timeout=30)
    assert repository.left == []


def test_only_a_marked_worktree_of_ours_is_ever_removed(repository: Repository) -> None:
    assert remove_abandoned(repository.root, repository.folder, env=repository.env) == ()
    notes, dead = repository.folder / "my notes", repository.folder / "0123456789ab-01234567"
    for folder in (notes, dead):
        folder.mkdir(parents=True)
        (folder / UNDERWAY).touch()
    users = repository.top.parent / "users"
    repository.git("worktree", "add", "--quiet", "--detach", str(users))
    with checked_out(repository) as living:
        dead.mkdir()
        (dead / UNDERWAY).touch()
        removed = remove_abandoned(repository.root, repository.folder, env=repository.env)
        assert removed == (dead.name,)
        assert living.root.is_dir()
    assert repository.left == sorted([str(users), "my notes"])


# What is where


def test_a_place_of_the_project_has_its_counterpart_and_an_environment_has_none(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write({".venv/pyvenv.cfg": "", ".venv/lib/x.py": "", "src/z.py": ""})
    (tmp_path / "link").symlink_to(repository.root)
    (repository.root / "outward").symlink_to(tmp_path)
    with checked_out(repository) as tree:
        assert tree.counterpart(repository.root) == tree.top
        assert tree.counterpart(tmp_path / "link" / "src" / "z.py") == tree.top / "src" / "z.py"
        elsewhere = [
            tmp_path,
            repository.root / "outward",
            repository.root / ".venv" / "lib" / "x.py",
            tree.top / "train.py",
        ]
        assert [tree.counterpart(path) for path in elsewhere] == [None] * len(elsewhere)
