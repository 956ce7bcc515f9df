"""Commits checked out beside a real repository: where they lie, what they come with, and that they
always go."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.repository import Repository

from perfgate.execute import worktree as room
from perfgate.execute.worktree import Worktree, worktree
from perfgate.model.errors import (
    PerfgateError,
    RevisionMissing,
    WorktreeFailed,
)
from perfgate.model.note import note
from perfgate.system import git
from perfgate.system.process import run_process


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A project of two commits."""
    made = Repository(tmp_path / "project")
    made.commit({"train.py": "old\n"})
    made.commit({"train.py": "new\n"})
    return made


@contextmanager
def checked_out(
    repository: Repository, revision: str = "HEAD~1", **more: object
) -> Iterator[Worktree]:
    given = {"folder": repository.folder, "env": repository.env, "run": run_process} | more
    with worktree(repository.root, revision, **given) as tree:  # type: ignore[arg-type]
        yield tree


def refusal(repository: Repository, revision: str = "HEAD~1", **more: object) -> PerfgateError:
    with pytest.raises(PerfgateError) as caught, checked_out(repository, revision, **more):
        pass
    assert repository.left == []
    return caught.value


def test_a_commit_lies_beside_the_project_for_as_long_as_the_block_lasts(
    repository: Repository,
) -> None:
    repository.write({"train.py": "uncommitted\n"})
    with checked_out(repository) as tree:
        sha = repository.git("rev-parse", "HEAD~1")
        assert (tree.commit, tree.root, tree.origin) == (sha, tree.top, repository.root)
        assert tree.home.parent == repository.folder
        assert tree.home.name.startswith(f"{sha[:12]}-")
        assert (tree.root / "train.py").read_text() == "old\n"
        assert git.require_commit(tree.root, env=repository.env).sha == sha
        assert len(repository.left) == 3
    assert repository.left == []
    assert (repository.root / "train.py").read_text() == "uncommitted\n"
    assert repository.git("status", "--porcelain") == "M train.py"
    assert (repository.root / ".perfgate" / ".gitignore").read_text() == "*\n"


def test_two_worktrees_of_one_commit_do_not_meet(repository: Repository) -> None:
    with checked_out(repository) as one, checked_out(repository) as other:
        assert one.top != other.top
        assert one.top.is_dir()
    assert repository.left == []


def test_a_monorepo_is_checked_out_whole_and_its_project_is_found_in_it(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "mono", within="services/train")
    repository.commit({"train.py": "old\n", "../../libs/core.py": "old\n"})
    with checked_out(repository, "HEAD") as tree:
        assert tree.root == tree.top / "services" / "train"
        assert (tree.origin, tree.origin_top) == (repository.root, repository.top)
        assert (tree.top / "libs" / "core.py").is_file()
    assert repository.left == []


def test_a_project_younger_than_the_commit_is_told(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "mono", within="services/train")
    sha = repository.commit({"../../README.md": "first\n"})
    repository.commit({"train.py": "new\n"})
    error = refusal(repository)
    assert error.code == "commit-without-root"
    assert error.fields == {"commit": sha[:12], "folder": "services/train"}


def test_a_project_in_a_submodule_is_checked_out_of_that(
    repository: Repository, tmp_path: Path
) -> None:
    outer = Repository(tmp_path / "outer")
    outer.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(repository.top),
        "inner",
    )
    outer.commit()
    with worktree(
        outer.top / "inner",
        "HEAD~1",
        folder=outer.top / "inner/.perfgate/worktrees",
        env=outer.env,
        run=run_process,
    ) as tree:
        assert (tree.root / "train.py").read_text() == "old\n"
        assert tree.origin_top == outer.top / "inner"
    with checked_out(outer, "HEAD") as tree:
        assert list((tree.top / "inner").iterdir()) == []


def test_hooks_of_the_project_stay_silent(repository: Repository) -> None:
    hook = repository.top / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho ran > hook-ran\nexit 1\n")
    hook.chmod(0o755)
    with checked_out(repository) as tree:
        assert not (tree.top / "hook-ran").exists()


def test_a_gate_started_by_a_hook_asks_about_its_own_project(
    repository: Repository, tmp_path: Path
) -> None:
    astray = {
        **repository.env,
        "GIT_DIR": str(tmp_path / "nowhere"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }
    told: dict[str, str] = {}

    def run(argv: Sequence[str], *, env: Mapping[str, str], **_: object) -> Finished:
        told.update(env)
        return Finished()

    with checked_out(repository, env=astray, setup=("true",), run=run) as tree:
        assert (tree.root / "train.py").read_text() == "old\n"
    assert "GIT_DIR" not in told


# What cannot be checked out


def test_a_shallow_clone_says_how_to_fetch_the_rest(repository: Repository, tmp_path: Path) -> None:
    sha = repository.git("rev-parse", "HEAD~1")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=1", repository.top.as_uri(), str(clone))
    with (
        pytest.raises(RevisionMissing),
        worktree(
            clone, sha, folder=clone / ".perfgate/worktrees", env=repository.env, run=run_process
        ),
    ):
        pass
    assert not (clone / ".perfgate").exists()


def test_a_file_in_the_way_is_told(repository: Repository) -> None:
    (repository.root / ".perfgate").write_text("")
    with (
        pytest.raises(WorktreeFailed) as caught,
        checked_out(repository),
    ):
        pass
    assert caught.value.code == "checkout-not-written"


def test_a_pointer_where_the_project_has_the_file_is_told(repository: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    sha = repository.commit(
        {".gitattributes": "*.bin filter=lfs\n", "data.bin": pointer, "both.bin": pointer}
    )
    repository.write({"data.bin": "whole"})
    assert refusal(repository, "HEAD").fields == {"commit": sha[:12], "file": "data.bin"}
    with checked_out(repository, "HEAD", setup=("sh", "-c", "echo whole > data.bin")) as tree:
        assert (tree.root / "data.bin").read_text() == "whole\n"


# The setup


@dataclass(frozen=True)
class Finished:
    """An end of our own."""

    returncode: int | None = 0
    timed_out: bool = False


def test_the_setup_runs_in_the_checkout_and_knows_the_project(repository: Repository) -> None:
    said: list[str] = []
    words = ("sh", "-c", 'echo "$PERFGATE_COMMIT"; ln -s "$PERFGATE_ROOT/data" data; pwd')
    repository.write({"data/a": "kept"})
    with checked_out(repository, setup=words, on_line=said.append) as tree:
        assert said == [tree.commit, str(tree.root)]
        assert (tree.root / "data" / "a").read_text() == "kept"
    assert (repository.root / "data" / "a").read_text() == "kept"


@pytest.mark.parametrize(
    ("setup", "ended", "code"),
    [
        (("sh", "-c", "echo one; echo; echo two >&2; exit 3"), None, "setup-failed"),
        (("./no-such-program",), None, "setup-not-started"),
        (("x",), Finished(None, timed_out=True), "setup-timed-out"),
        (("x",), Finished(-9), "setup-failed"),
    ],
    ids=["status", "missing", "time", "signal"],
)
def test_a_setup_that_fails_says_how(
    repository: Repository, setup: tuple[str, ...], ended: Finished | None, code: str
) -> None:
    run: Callable[..., object] = run_process if ended is None else lambda *_, **__: ended
    error = refusal(repository, setup=setup, run=run)
    assert error.code == code
    if setup[0] == "sh":
        assert error.fields["status"] == 3
        assert error.fields["output"] == (note("output-tail", lines="one\ntwo"),)


@pytest.mark.parametrize(("time_left_s", "allowed_s"), [(12.4, 12.4), (-3.0, 0), (7200.0, 1800)])
def test_a_setup_ends_with_the_time_budget_of_its_gate(
    repository: Repository, time_left_s: float, allowed_s: float
) -> None:
    allowed: list[float] = []

    def run(*_: object, timeout_s: float, **__: object) -> Finished:
        allowed.append(timeout_s)
        return Finished(None, timed_out=True)

    error = refusal(repository, setup=("x",), run=run, time_left_s=time_left_s)
    assert allowed == [error.fields["limit_s"]] == [allowed_s]


# That they always go


class Oops(Exception):
    """Something of the caller's."""


@pytest.mark.parametrize("kind", [Oops, KeyboardInterrupt, SystemExit])
def test_whatever_ends_the_block_the_worktree_goes(
    repository: Repository, kind: type[BaseException]
) -> None:
    def work() -> None:
        with checked_out(repository):
            assert len(repository.left) == 3
            raise kind

    with pytest.raises(kind):
        work()
    assert repository.left == []


def test_another_interrupt_while_it_is_removed_only_begins_anew(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = room._remove
    calls: list[Path] = []

    def interrupted(root: Path, home: Path, env: Mapping[str, str]) -> None:
        calls.append(home)
        if len(calls) == 1:
            raise KeyboardInterrupt
        removed(root, home, env)

    def work() -> None:
        with checked_out(repository):
            monkeypatch.setattr(room, "_remove", interrupted)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(calls) == 2
    assert repository.left == []


def test_an_interrupt_while_it_is_made_leaves_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = git.add_worktree

    def interrupted(
        root: Path, folder: Path, commit: str, *, env: Mapping[str, str] | None = None
    ) -> None:
        added(root, folder, commit, env=env)
        repository.git("worktree", "lock", "--reason=initializing", str(folder))
        (folder / ".git").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(git, "add_worktree", interrupted)
    with pytest.raises(KeyboardInterrupt), checked_out(repository):
        pass
    assert repository.left == []


def test_files_that_git_would_not_remove_go_as_well(repository: Repository) -> None:
    with checked_out(repository) as tree:
        (tree.root / "untracked").mkdir()
        (tree.root / "untracked" / "file").write_text("x")
        (tree.root / "train.py").write_text("changed")
        repository.git("worktree", "lock", str(tree.top))
    assert repository.left == []


HOLDING = """\
import sys, time
from pathlib import Path
from perfgate.execute.worktree import worktree
from perfgate.system.process import run_process
env = {env!r}
with worktree(Path({root!r}), "HEAD", folder=Path({folder!r}), env=env, run=run_process, setup={setup!r},
              on_line=lambda line: print(line, flush=True)):
    print("ready", flush=True)
    time.sleep(60)
"""


def held(repository: Repository, *, setup: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process that holds a worktree, once it has printed its first line."""
    code = HOLDING.format(
        env=repository.env, root=str(repository.root), folder=str(repository.folder), setup=setup
    )
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "setup", [(), ("sh", "-c", "echo ready; sleep 60")], ids=["in the block", "in its setup"]
)
def test_ctrl_c_removes_it(repository: Repository, setup: tuple[str, ...]) -> None:
    process = held(repository, setup=setup)
    assert len(repository.left) == 3
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    assert repository.left == []


def test_what_a_killed_gate_left_goes_with_the_next_and_what_a_living_one_holds_stays(
    repository: Repository,
) -> None:
    killed, living = held(repository), held(repository)
    assert len(repository.left) == 6
    killed.kill()
    killed.wait()
    assert len(repository.left) == 6
    with checked_out(repository):
        assert len(repository.left) == 6
    assert len(repository.left) == 3
    living.send_signal(signal.SIGINT)
    living.wait(timeout=30)
    assert repository.left == []


def test_only_what_looks_like_a_worktree_of_ours_is_ever_removed(repository: Repository) -> None:
    others = repository.folder / "my notes"
    others.mkdir(parents=True)
    (repository.folder / "0123456789ab-01234567").mkdir()
    users = repository.top.parent / "users"
    repository.git("worktree", "add", "--quiet", "--detach", str(users))
    with checked_out(repository):
        pass
    assert repository.left == sorted([str(users), "my notes"])


def test_a_file_system_that_cannot_lock_is_no_obstacle(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with checked_out(repository) as one, checked_out(repository) as other:
        assert one.top.is_dir()
        assert other.top.is_dir()
    assert repository.left == []


# What is where


def test_a_place_of_the_project_has_its_counterpart_and_an_environment_has_none(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write({".venv/pyvenv.cfg": "", ".venv/lib/x.py": "", "src/z.py": ""})
    (tmp_path / "link").symlink_to(repository.root)
    (repository.root / "outward").symlink_to(tmp_path)
    with checked_out(repository) as tree:
        assert tree.counterpart(repository.root) == tree.top
        assert tree.counterpart(repository.root / "src" / "z.py") == tree.top / "src" / "z.py"
        assert tree.counterpart(tmp_path / "link" / "src") == tree.top / "src"
        elsewhere = [
            tmp_path,
            repository.root / "outward",
            repository.root / ".venv",
            repository.root / ".venv" / "lib" / "x.py",
            tree.top / "train.py",
        ]
        assert [tree.counterpart(path) for path in elsewhere] == [None] * len(elsewhere)


def test_worktrees_of_dead_gates_are_removed_on_demand_and_those_of_living_ones_are_not(
    repository: Repository,
) -> None:
    assert room.remove_abandoned(repository.root, repository.folder, env=repository.env) == ()
    with checked_out(repository) as living:
        dead = repository.folder / f"{living.commit[:12]}-00000000"
        repository.git("worktree", "add", "--detach", str(dead / "checkout"))
        assert room.remove_abandoned(repository.root, repository.folder, env=repository.env) == (
            dead.name,
        )
        assert not dead.exists()
        assert (living.root / "train.py").read_text() == "old\n"
    assert repository.left == []
