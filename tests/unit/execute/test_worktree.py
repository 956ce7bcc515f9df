"""Commits checked out beside a real repository: where they lie, what they come with, and that they always go."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import time
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
    RepositoryUnreadable,
    RevisionMissing,
    WorktreeFailed,
)
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
    assert str(refusal(repository)) == (
        f"commit {sha[:12]}: it has no folder services/train. The project's root is there today.\n"
        "Name a younger commit in --perfgate-against; where the baseline's is run again, bless one that was "
        "measured at a commit that has it."
    )


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
        assert tree.submodule_advice == (
            " Submodules are not checked out; duet_setup can do it, by `git submodule update --init --recursive`."
        )


def test_a_sparse_checkout_is_no_trouble(repository: Repository) -> None:
    repository.commit({"big/data.txt": "x\n"})
    repository.git("sparse-checkout", "set", "--no-cone", "/train.py")
    with checked_out(repository, "HEAD") as tree:
        assert (tree.root / "train.py").is_file()


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_that_is_trusted_is_checked_out(
    repository: Repository,
) -> None:
    for path in (repository.top, repository.top / ".git"):
        os.chown(path, 65534, 65534)
    trust = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": str(repository.top),
    }
    with checked_out(repository, env={**repository.env, **trust}) as tree:
        assert git.tracked_files(tree.root, "*.py", env={**repository.env, **trust}) == (
            "train.py",
        )
    with (
        pytest.raises(RepositoryUnreadable, match="it belongs to another user"),
        checked_out(repository),
    ):
        pass


# What cannot be checked out


def test_a_shallow_clone_says_how_to_fetch_the_rest(repository: Repository, tmp_path: Path) -> None:
    sha = repository.git("rev-parse", "HEAD~1")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=1", repository.top.as_uri(), str(clone))
    with (
        pytest.raises(RevisionMissing) as caught,
        worktree(
            clone, sha, folder=clone / ".perfgate/worktrees", env=repository.env, run=run_process
        ),
    ):
        pass
    assert str(caught.value) == (
        f"commit {sha}: it is not in this clone, which is shallow. A commit has to be there to be run again.\n"
        "In GitHub Actions set fetch-depth: 0 of checkout; elsewhere fetch the whole history: git fetch --unshallow"
    )
    assert not (clone / ".perfgate").exists()


def test_a_bare_repository_has_no_project(repository: Repository, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    repository.git("clone", "--quiet", "--bare", str(repository.top), str(bare))
    with (
        pytest.raises(RepositoryUnreadable) as caught,
        worktree(bare, "HEAD", folder=bare / "worktrees", env=repository.env, run=run_process),
    ):
        pass
    assert str(caught.value) == (
        f"{bare}: it is in no checkout of its repository. perfgate asks git which code it measures.\n"
        "Run perfgate in a checkout of the project."
    )


def test_without_git_nothing_is_left(repository: Repository, tmp_path: Path) -> None:
    with (
        pytest.raises(RepositoryUnreadable, match="there is no git on the PATH"),
        checked_out(repository, env={**repository.env, "PATH": str(tmp_path)}),
    ):
        pass
    assert repository.left == []


FULL = "error: unable to write file train.py: No space left on device\nfatal: Could not reset index file"
LFS = "Downloading data.bin (1 B)\nerror: external filter failed\nfatal: data.bin: smudge filter lfs failed"
BY_HAND = "See what git says: git -C {root} worktree add --detach FOLDER COMMIT"
FETCH = "Fetch them before (git lfs fetch origin COMMIT), or set GIT_LFS_SKIP_SMUDGE=1 and pull them in duet_setup."
PARTIAL = "this clone is partial, and the files of that commit could not be fetched"


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        (FULL, "the disk is full|Free some space, then run again."),
        (
            "fatal: could not create leading directories of '.git/worktrees/checkout': Permission denied",
            "this user may not write there or to .git|Make both writable for this user.",
        ),
        (
            "fatal: could not create directory of '.git/worktrees/checkout': Read-only file system",
            "the file system is read-only|Run where the repository can be written to.",
        ),
        (
            LFS,
            f"Git LFS could not fetch its files|{FETCH}",
        ),
        (
            "git-lfs filter-process: 1: git-lfs: not found\nfatal: the remote end hung up unexpectedly",
            "its files need Git LFS, which is not installed|Install git-lfs, or fetch them before.",
        ),
        (
            "fatal: could not fetch 0123 from promisor remote",
            f"{PARTIAL}|Clone without --filter, or let git reach its remote.",
        ),
        (
            "Preparing worktree (detached HEAD 1)\nfatal: something else.",
            f"git worktree failed: fatal: something else|{BY_HAND}",
        ),
        ("", f"git worktree exited with 128|{BY_HAND}"),
    ],
)
def test_what_git_complains_of_is_told_with_its_cause(
    repository: Repository, tmp_path: Path, complaint: str, told: str
) -> None:
    (tmp_path / "bin").mkdir()
    real = subprocess.run(
        ["which", "git"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (tmp_path / "complaint").write_text(complaint)
    fake = f'#!/bin/sh\ncase "$*" in *"worktree add"*) cat {tmp_path}/complaint >&2; exit 128;; esac\nexec {real} "$@"\n'
    (tmp_path / "bin" / "git").write_text(fake)
    (tmp_path / "bin" / "git").chmod(0o755)
    sha = repository.git("rev-parse", "HEAD~1")[:12]
    error = refusal(
        repository, env={**repository.env, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    )
    fact, next_step = told.format(root=repository.root).split("|")
    assert isinstance(error, WorktreeFailed)
    assert (
        str(error)
        == f"commit {sha}: {fact}. It is checked out to be run beside the project.\n{next_step}"
    )


def test_a_checkout_that_takes_too_long_is_given_up(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfgate.system.git.worktrees.CHECKOUT_LIMIT_S", 1e-9)
    sha = repository.git("rev-parse", "HEAD~1")[:12]
    with pytest.raises(WorktreeFailed) as caught, checked_out(repository):
        pass
    assert str(caught.value).startswith(
        f"commit {sha}: git worktree took longer than 1e-09 s. It is checked out to be"
    )


@pytest.mark.parametrize(
    ("number", "fact", "next_step"),
    [
        (errno.ENOSPC, "the disk is full", "Free some space, then run again."),
        (errno.EROFS, "the file system is read-only", "Run where the project can be written to."),
        (
            errno.ELOOP,
            "{folder} cannot be used: Too many levels of symbolic links",
            "See to it, then run again.",
        ),
    ],
)
def test_a_folder_that_cannot_be_made_is_told(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, number: int, fact: str, next_step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(room, "_prepare", fail)
    sha = repository.git("rev-parse", "HEAD~1")[:12]
    assert str(refusal(repository)) == (
        f"commit {sha}: {fact.format(folder=repository.folder)}. It is checked out below {repository.folder}.\n"
        f"{next_step}"
    )


def test_a_file_in_the_way_is_told(repository: Repository) -> None:
    (repository.root / ".perfgate").write_text("")
    with (
        pytest.raises(WorktreeFailed, match="a file stands where a folder must be"),
        checked_out(repository),
    ):
        pass


def test_a_pointer_where_the_project_has_the_file_is_told(repository: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    sha = repository.commit(
        {".gitattributes": "*.bin filter=lfs\n", "data.bin": pointer, "both.bin": pointer}
    )
    repository.write({"data.bin": "whole"})
    assert str(refusal(repository, "HEAD")) == (
        f"commit {sha[:12]}: data.bin is a Git LFS pointer there, and a whole file in the project. "
        "Both sides of a duet need their files.\nLet duet_setup fetch it: git lfs pull"
    )
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


TRY = "Try it in one: git worktree add --detach ../baseline {sha}."


@pytest.mark.parametrize(
    ("setup", "ended", "told"),
    [
        (
            ("sh", "-c", "echo one; echo; echo two >&2; exit 3"),
            None,
            f"duet_setup ended with exit status 3|{TRY}\nLast lines of its output:\n  | one\n  | two",
        ),
        (
            ("./no-such-program",),
            None,
            f"duet_setup cannot be started: No such file or directory|{TRY}",
        ),
        (
            ("x",),
            Finished(None, timed_out=True),
            f"duet_setup did not end within 1800 s and was stopped|{TRY}",
        ),
        (("x",), Finished(-9), f"duet_setup was ended by signal 9|{TRY}"),
    ],
    ids=["status", "missing", "time", "signal"],
)
def test_a_setup_that_fails_is_told_with_its_last_lines(
    repository: Repository, setup: tuple[str, ...], ended: Finished | None, told: str
) -> None:
    run: Callable[..., object] = run_process if ended is None else lambda *_, **__: ended
    error = refusal(repository, setup=setup, run=run)
    sha = repository.git("rev-parse", "HEAD~1")[:12]
    fact, next_step = told.format(sha=sha).split("|", 1)
    assert str(error) == (
        f"commit {sha}: {fact}. It makes a fresh checkout of that commit ready to run.\n{next_step}"
    )


@pytest.mark.parametrize(
    ("time_left_s", "told"),
    [
        (12.4, "12 s that were left of the time budget"),
        (-3.0, "0 s that were left of the time budget"),
        (7200.0, "1800 s"),
    ],
)
def test_a_setup_ends_with_the_time_budget_of_its_gate(
    repository: Repository, time_left_s: float, told: str
) -> None:
    allowed: list[float] = []

    def run(*_: object, timeout_s: float, **__: object) -> Finished:
        allowed.append(timeout_s)
        return Finished(None, timed_out=True)

    error = refusal(repository, setup=("x",), run=run, time_left_s=time_left_s)
    assert allowed == [min(max(time_left_s, 0), 1800)]
    assert f": duet_setup did not end within {told} and was stopped. " in str(error)


def test_a_setup_that_fails_where_there_are_submodules_says_that_they_are_not_there(
    repository: Repository,
) -> None:
    repository.commit({".gitmodules": ""})
    assert "baseline " in str(error := refusal(repository, "HEAD", setup=("false",)))
    assert str(error).endswith(
        ". Submodules are not checked out; duet_setup can do it, by `git submodule update --init --recursive`."
    )


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


def test_time_is_not_lost_on_a_worktree(repository: Repository) -> None:
    started = time.monotonic()
    with checked_out(repository):
        pass
    assert time.monotonic() - started < 10


# What is where


def test_a_place_of_the_project_has_its_counterpart_and_an_environment_has_none(
    repository: Repository, tmp_path: Path
) -> None:
    repository.write(
        {".venv/pyvenv.cfg": "", ".venv/lib/x.py": "", "lib/site-packages/y.py": "", "src/z.py": ""}
    )
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
            repository.root / "lib" / "site-packages" / "y.py",
            tree.top / "train.py",
        ]
        assert [tree.counterpart(path) for path in elsewhere] == [None] * len(elsewhere)


def test_a_vendored_folder_that_is_named_as_that_of_installed_packages_has_its_counterpart(
    repository: Repository,
) -> None:
    repository.commit(
        {"vendor/site-packages/eng.py": "", "lib/dist-packages/inner/site-packages/x.py": ""}
    )
    repository.write({"other/site-packages/y.py": ""})
    with checked_out(repository) as tree:
        for name in (
            "vendor/site-packages",
            "vendor/site-packages/eng.py",
            "lib/dist-packages/inner/site-packages",
        ):
            assert tree.counterpart(repository.root / name) == tree.top / name
        assert tree.counterpart(repository.root / "other" / "site-packages") is None


def test_a_checkout_knows_the_names_of_projects_there_and_here(repository: Repository) -> None:
    repository.commit({"python/pyproject.toml": '[project]\nname = "The.Old"\n'})
    repository.write(
        {
            "python/pyproject.toml": '[project]\nname = "new"\n',
            "x/setup.py": "setup(name='untracked')",
        }
    )
    with checked_out(repository, "HEAD") as tree:
        assert tree.names == {"the-old", "new"}


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
