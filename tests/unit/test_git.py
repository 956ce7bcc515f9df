"""What git is asked, of real repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath

import pytest

from perfgate import git
from perfgate.model.baseline import Commit
from perfgate.model.errors import RepositoryUnreadable, RevisionMissing

Env = Mapping[str, str]


@pytest.fixture
def env(tmp_path: Path) -> Env:
    """An environment without the configuration of this machine."""
    home = tmp_path / "home"
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LOGNAME": "ada"}


def run(root: Path, env: Env, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ("git", *identity, *arguments)
    return subprocess.run(command, cwd=root, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path, env: Env) -> Path:
    """A repository of one commit on branch main."""
    root = tmp_path / "project"
    (root / "workloads").mkdir(parents=True)
    (root / "workloads" / "mlp.py").write_text("steps = 1\n")
    (root / "train.py").write_text("pass\n")
    (root / ".gitignore").write_text(".perfgate/\n*.log\n")
    run(root, env, "init", "--quiet", "--initial-branch=main")
    run(root, env, "add", ".")
    run(root, env, "commit", "--quiet", "-m", "first")
    return root


def test_a_clean_checkout_is_its_commit_and_branch(root: Path, env: Env) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    assert git.read_commit(root, env=env) == Commit(sha=sha, dirty=False, branch="main")


def test_a_detached_head_has_no_branch(root: Path, env: Env) -> None:
    run(root, env, "checkout", "--quiet", "--detach")
    assert git.require_commit(root, env=env).branch is None


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("train.py", True),
        ("new_module.py", True),
        ("new folder/ü.txt", True),
        ("run.log", False),
        (".perfgate/result.json", False),
        ("baselines/nvidia-h200/mlp.json", False),
        ("workloads/baselines.py", True),
        ("workloads/__pycache__/mlp.cpython-311.pyc", False),
        ("of another branch/__pycache__/gone.cpython-311.pyc", False),
        ("mlp.pyc", True),
    ],
)
def test_whatever_the_commit_does_not_hold_makes_it_dirty_but_for_baselines(
    root: Path, env: Env, path: str, dirty: bool
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("changed\n")
    assert git.require_commit(root, env=env).dirty is dirty
    assert bool(git.changes(root, env=env, baselines="baselines")) is dirty


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_git_was_told_to_pass_over_is_dirty(root: Path, env: Env, flag: str) -> None:
    inner = root / "workloads"
    run(root, env, "update-index", flag, "train.py", "workloads/mlp.py")
    assert not git.require_commit(root, env=env).dirty
    assert git.changes(inner, env=env) == ()
    (root / "train.py").write_text("fast\n")
    assert run(root, env, "status", "--porcelain") == ""
    assert git.require_commit(inner, env=env).dirty
    assert git.changes(inner, env=env) == ("train.py",)


def test_a_file_that_a_sparse_checkout_leaves_out_is_no_change(root: Path, env: Env) -> None:
    run(root, env, "sparse-checkout", "set", "--no-cone", "/workloads/")
    assert not (root / "train.py").exists()
    assert not git.require_commit(root, env=env).dirty
    run(root, env, "sparse-checkout", "disable")
    run(root, env, "update-index", "--assume-unchanged", "train.py")
    (root / "train.py").unlink()
    assert git.changes(root, env=env) == ("train.py",)


def test_a_baseline_that_git_was_told_to_pass_over_is_not_looked_at_either(root: Path, env: Env) -> None:
    (root / "baselines").mkdir()
    (root / "baselines" / "mlp.json").write_text("{}")
    run(root, env, "add", ".")
    run(root, env, "commit", "--quiet", "-m", "bless")
    run(root, env, "update-index", "--assume-unchanged", "baselines/mlp.json")
    (root / "baselines" / "mlp.json").write_text("[]")
    assert not git.require_commit(root, env=env).dirty


def test_the_word_of_a_file_watcher_is_not_taken_for_the_files(root: Path, env: Env, tmp_path: Path) -> None:
    watcher = tmp_path / "watcher"
    watcher.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nprintf 'token\\0'\n")
    watcher.chmod(0o755)
    run(root, env, "config", "core.fsmonitor", str(watcher))
    run(root, env, "update-index", "--fsmonitor")
    run(root, env, "status")
    (tmp_path / "asked").unlink()
    (root / "train.py").write_text("fast\n")
    assert git.require_commit(root, env=env).dirty
    assert git.changes(root, env=env) == ("train.py",)
    assert not (tmp_path / "asked").exists()


def test_a_staged_deletion_is_dirty(root: Path, env: Env) -> None:
    run(root, env, "rm", "--quiet", "train.py")
    assert git.require_commit(root, env=env).dirty


def test_a_project_inside_a_repository_is_dirty_by_any_file_of_the_repository(root: Path, env: Env) -> None:
    (root / "workloads" / "blessed").mkdir()
    (root / "workloads" / "blessed" / "x.json").write_text("{}")
    assert not git.require_commit(root / "workloads", env=env, baselines="blessed").dirty
    assert git.require_commit(root / "workloads", env=env).dirty
    (root / "train.py").write_text("changed\n")
    assert git.require_commit(root / "workloads", env=env, baselines="blessed").dirty


@pytest.mark.parametrize("baselines", ["../elsewhere", "/elsewhere", "[odd]*"])
def test_baselines_elsewhere_do_not_confuse_git(root: Path, env: Env, baselines: str) -> None:
    assert git.require_commit(root, env=env, baselines=baselines).dirty is False


def test_a_hook_of_another_repository_does_not_lead_astray(root: Path, env: Env, tmp_path: Path) -> None:
    astray = {**env, "GIT_DIR": str(tmp_path / "nowhere"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    assert git.read_commit(root, env=astray) == git.read_commit(root, env=env)


def test_a_hook_of_a_git_that_takes_paths_literally_does_not_make_all_clean(root: Path, env: Env) -> None:
    (root / "train.py").write_text("changed\n")
    literal = {**env, "GIT_LITERAL_PATHSPECS": "1"}
    assert git.require_commit(root, env=literal).dirty
    assert git.changes(root, env=literal) == ("train.py",)


def test_a_submodule_at_another_commit_is_a_change_whatever_gitmodules_says(
    root: Path, env: Env, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run(inner, env, "init", "--quiet")
    run(inner, env, "commit", "--quiet", "--allow-empty", "-m", "one")
    run(root, env, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "pkg")
    run(root, env, "config", "--file", ".gitmodules", "submodule.pkg.ignore", "all")
    run(root, env, "add", ".gitmodules", "pkg")
    run(root, env, "commit", "--quiet", "-m", "submodule")
    assert not git.require_commit(root, env=env).dirty
    run(root / "pkg", env, "commit", "--quiet", "--allow-empty", "-m", "two")
    assert git.require_commit(root, env=env).dirty
    assert git.changes(root, env=env) == ("pkg",)


def refusal(root: Path, env: Env) -> str:
    assert git.read_commit(root, env=env) is None
    with pytest.raises(RepositoryUnreadable) as caught:
        git.require_commit(root, env=env)
    return str(caught.value)


def test_outside_a_repository_there_is_no_commit(tmp_path: Path, env: Env) -> None:
    assert refusal(tmp_path, {**env, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}) == (
        f"{tmp_path}: it is not in a git repository. perfgate asks git which code it measures.\n"
        "Run perfgate in a checkout of the project."
    )


def test_before_the_first_commit_there_is_none(tmp_path: Path, env: Env) -> None:
    run(tmp_path, env, "init", "--quiet")
    assert refusal(tmp_path, env) == (
        f"{tmp_path}: the repository has no commit yet. A measurement names the commit that it measured.\n"
        "Commit the code, then run again."
    )


def test_without_git_there_is_no_commit(root: Path, env: Env, tmp_path: Path) -> None:
    assert refusal(root, {**env, "PATH": str(tmp_path)}) == (
        f"{root}: there is no git on the PATH. perfgate asks git which code it measures.\nInstall git."
    )


def test_a_folder_that_is_gone_is_told_from_a_missing_git(tmp_path: Path, env: Env) -> None:
    assert refusal(tmp_path / "gone", env) == (
        f"{tmp_path / 'gone'}: there is no such folder. perfgate asks git which code it measures.\n"
        "Run perfgate inside the project."
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_repository_of_another_user_names_the_remedy(root: Path, env: Env) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    assert refusal(root, env) == (
        f"{root}: git refuses it, since it belongs to another user. perfgate asks git which code it measures.\n"
        f"If you trust it: git config --global --add safe.directory {root}"
    )
    with pytest.raises(RepositoryUnreadable):
        git.tracked_python_files(root, env=env)
    (root / "svc").mkdir()
    assert refusal(root / "svc", env).endswith(f"safe.directory {root}")
    trusting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": str(root)}
    assert git.read_commit(root, env={**env, **trusting}) is not None


def test_a_broken_repository_is_told_in_gits_words(root: Path, env: Env) -> None:
    (root / ".git" / "index").write_text("no index")
    assert refusal(root, env).startswith(f"{root}: git status failed: ")


def test_a_git_that_hangs_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setattr(git, "TIME_LIMIT_S", 0.2)
    assert refusal(root, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}).startswith(
        f"{root}: git status took longer than 0.2 s."
    )


def test_who_blesses_is_named_by_environment_configuration_or_login(root: Path, env: Env) -> None:
    assert git.author(root, env={**env, "PATH": "/nowhere"}) != ""
    run(root, env, "config", "user.name", "Ada Lovelace")
    assert git.author(root, env=env) == "Ada Lovelace"
    run(root, env, "config", "user.email", "ada@example.org")
    assert git.author(root, env=env) == "Ada Lovelace <ada@example.org>"
    assert git.author(root, env={**env, "GIT_AUTHOR_NAME": "bot"}) == "bot <ada@example.org>"


def test_who_blesses_without_any_configuration_is_the_login(
    tmp_path: Path, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert git.author(tmp_path, env=env) == "ada"


def test_tracked_python_files_are_relative_to_the_root_and_exist(root: Path, env: Env) -> None:
    (root / "untracked.py").write_text("")
    (root / "ünï code.py").write_text("")
    run(root, env, "add", "ünï code.py")
    assert git.tracked_python_files(root, env=env) == ("train.py", "workloads/mlp.py", "ünï code.py")
    assert git.tracked_python_files(root / "workloads", env=env) == ("mlp.py",)
    (root / "train.py").unlink()
    assert git.tracked_python_files(root, env=env) == ("workloads/mlp.py", "ünï code.py")


def test_tracked_python_files_of_submodules_are_among_them(root: Path, env: Env, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    run(inner, env, "init", "--quiet")
    (inner / "core.py").write_text("")
    run(inner, env, "add", "core.py")
    run(inner, env, "commit", "--quiet", "-m", "one")
    run(root, env, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "libs/pkg")
    assert git.tracked_python_files(root, env=env) == ("libs/pkg/core.py", "train.py", "workloads/mlp.py")
    assert git.tracked_python_files(root / "libs", env=env) == ("pkg/core.py",)
    run(root, env, "submodule", "--quiet", "deinit", "--force", "libs/pkg")
    assert git.tracked_python_files(root, env=env) == ("train.py", "workloads/mlp.py")


def test_a_folder_is_a_projects_where_git_tracks_what_says_so(root: Path, env: Env) -> None:
    for name in ("pyproject.toml", "a/setup.py", "a/b/setup.cfg", "a/b/setup.py", "c/my-pyproject.toml", "d/setup.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    run(root, env, "add", "pyproject.toml", "a", "c")
    assert git.project_folders(root, env=env) == (root, root / "a", root / "a/b")
    assert git.project_folders(root / "a", env=env) == (root / "a", root / "a/b")


# Other commits


def missing(root: Path, env: Env, revision: str) -> str:
    with pytest.raises(RevisionMissing) as caught:
        git.resolve(root, revision, env=env)
    return str(caught.value)


def test_a_revision_is_whatever_names_a_commit(root: Path, env: Env) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    run(root, env, "tag", "-a", "v1", "-m", "annotated")
    run(root, env, "commit", "--quiet", "--allow-empty", "-m", "second")
    names = (sha, sha[:12], "HEAD~1", "v1", "main^")
    assert {git.resolve(root / "workloads", name, env=env) for name in names} == {sha}


@pytest.mark.parametrize(
    ("revision", "subject"),
    [
        ("nonsense", "nonsense"),
        ("0123456789" * 4, "0123456789" * 4),
        ("--all", "--all"),
        ("", "''"),
        ("a\0b", "a\0b"),
        ("HEAD^{tree}", "HEAD^{tree}"),
    ],
)
def test_a_revision_that_names_no_commit_is_told(root: Path, env: Env, revision: str, subject: str) -> None:
    advice = (
        f"Fetch it (git fetch origin {revision}), or bless anew if the history was rewritten."
        if revision == "0123456789" * 4
        else "Look for its name (git branch --all, git tag), or fetch it: git fetch --all --tags"
    )
    assert missing(root, env, revision) == (
        f"commit {subject}: it is not in this clone. A commit has to be there to be run again.\n{advice}"
    )


def test_a_revision_that_a_shallow_clone_lacks_is_told_with_the_remedy(root: Path, env: Env, tmp_path: Path) -> None:
    sha = run(root, env, "rev-parse", "HEAD")
    run(root, env, "commit", "--quiet", "--allow-empty", "-m", "second")
    run(root, env, "clone", "--quiet", "--depth=1", root.as_uri(), str(tmp_path / "shallow"))
    assert missing(tmp_path / "shallow", env, sha) == (
        f"commit {sha}: it is not in this clone, which is shallow. A commit has to be there to be run again.\n"
        "Fetch the whole history: git fetch --unshallow; in GitHub Actions, set fetch-depth: 0 of checkout."
    )
    run(tmp_path / "shallow", env, "fetch", "--quiet", "--unshallow")
    assert git.resolve(tmp_path / "shallow", sha, env=env) == sha


def test_a_revision_outside_a_repository_is_the_repositorys_trouble(tmp_path: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable, match="it is not in a git repository"):
        git.resolve(tmp_path, "HEAD", env={**env, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})


def test_where_a_project_lies_in_its_repository_is_told_through_links(root: Path, env: Env, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "workloads")
    assert git.prefix(root, env=env) == Path()
    assert git.prefix(root / "workloads", env=env) == Path("workloads")
    assert git.prefix(tmp_path / "link", env=env) == Path("workloads")


def test_a_folder_of_git_itself_is_no_project(root: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable) as caught:
        git.prefix(root / ".git", env=env)
    assert str(caught.value) == (
        f"{root / '.git'}: it is in no checkout of its repository. perfgate asks git which code it measures.\n"
        "Run perfgate in a checkout of the project."
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_revision_of_another_users_repository_names_the_remedy(root: Path, env: Env) -> None:
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)
    with pytest.raises(RepositoryUnreadable, match="it belongs to another user"):
        git.resolve(root, "HEAD", env=env)


def test_what_is_tracked_is_told_of_files_and_folders(root: Path, env: Env) -> None:
    (root / "run.log").write_text("")
    (root / "[odd]*.py").write_text("")
    asked = ("train.py", "workloads", "run.log", "none", "[odd]*.py")
    assert [git.is_tracked(root, root / name, env=env) for name in asked] == [True, True, False, False, False]


def test_what_is_ignored_is_told_of_what_is_there_and_what_is_not(root: Path, env: Env) -> None:
    run(root, env, "add", "--force", "--intent-to-add", "--", "train.py")
    asked = ("run.log", "odd [name].log", "train.py", "new.py", ".perfgate/x")
    assert git.ignored(root, asked, env=env) == {"run.log", "odd [name].log", ".perfgate/x"}
    assert git.ignored(root, ("train.py",), env=env) == set()
    assert git.ignored(root, (), env={}) == set()
    with pytest.raises(RepositoryUnreadable):
        git.ignored(root, ("../outside.py",), env=env)


def test_vendored_folders_are_tracked_ones_of_that_name(root: Path, env: Env) -> None:
    assert git.vendored(root, env=env) == frozenset()
    for name in (
        "site-packages/a.py",
        "v/dist-packages/b/site-packages/c.py",
        "v/dist-packages/d",
        "x/my-site-packages/e",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    run(root, env, "add", ".")
    (root / "other" / "site-packages").mkdir(parents=True)
    (root / "other" / "site-packages" / "f.py").write_text("")
    assert git.vendored(root, env=env) == {PurePath("site-packages"), PurePath("v/dist-packages")}


def test_files_of_git_lfs_are_those_with_its_filter(root: Path, env: Env) -> None:
    assert git.lfs_files(root, env=env) == ()
    (root / ".gitattributes").write_text("*.bin filter=lfs\n")
    (root / "a.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    run(root, env, "add", ".")
    assert git.lfs_files(root, env=env) == ("a.bin",)


def test_a_worktree_comes_and_goes_and_others_stay(root: Path, env: Env, tmp_path: Path) -> None:
    def listed() -> list[str]:
        lines = run(root, env, "worktree", "list", "--porcelain").splitlines()
        return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]

    unplugged, ours = tmp_path / "unplugged", tmp_path / "ours"
    run(root, env, "worktree", "add", "--quiet", "--detach", str(unplugged))
    unplugged.rename(tmp_path / "away")
    git.add_worktree(root, ours, git.resolve(root, "HEAD", env=env), env=env)
    assert (ours / "train.py").is_file()
    assert listed() == [str(root), str(ours), str(unplugged)]
    git.remove_worktree(root, ours, env=env)
    assert listed() == [str(root), str(unplugged)]
    assert not ours.exists()


def test_what_git_cannot_remove_is_forgotten_alone(root: Path, env: Env, tmp_path: Path) -> None:
    unplugged, ours = tmp_path / "unplugged", tmp_path / "ours"
    run(root, env, "worktree", "add", "--quiet", "--detach", str(unplugged))
    git.add_worktree(root, ours, git.resolve(root, "HEAD", env=env), env=env)
    unplugged.rename(tmp_path / "away")
    (ours / ".git").write_text("broken")
    git.remove_worktree(root, tmp_path / "never", env=env)
    git.remove_worktree(root, ours, env=env)
    assert [entry.name for entry in (root / ".git" / "worktrees").iterdir()] == ["unplugged"]
    (tmp_path / "away").rename(unplugged)
    assert run(unplugged, env, "rev-parse", "HEAD") == run(root, env, "rev-parse", "HEAD")


def test_the_default_branch_is_the_one_that_origin_names(root: Path, env: Env, tmp_path: Path) -> None:
    run(root, env, "branch", "--move", "trunk/2")
    clone = tmp_path / "clone"
    run(tmp_path, env, "clone", "--quiet", str(root), str(clone))
    run(clone, env, "checkout", "--quiet", "-b", "main")
    assert git.default_branch(clone, env=env) == "trunk/2"


@pytest.mark.parametrize("name", ["main", "master"])
def test_without_an_origin_the_default_branch_is_main_or_master(root: Path, env: Env, name: str) -> None:
    run(root, env, "branch", "--move", name)
    run(root, env, "checkout", "--quiet", "-b", "feature/main")
    assert git.default_branch(root, env=env) == name


def test_else_the_default_branch_is_the_current_one(root: Path, env: Env) -> None:
    run(root, env, "branch", "--move", "größe")
    assert git.default_branch(root, env=env) == "größe"
    run(root, env, "checkout", "--quiet", "--detach")
    assert git.default_branch(root, env=env) is None


def test_before_the_first_commit_the_default_branch_is_the_one_to_come(tmp_path: Path, env: Env) -> None:
    run(tmp_path, env, "init", "--quiet", "--initial-branch=on", "new")
    assert git.default_branch(tmp_path / "new", env=env) == "on"


def test_outside_a_repository_there_is_no_default_branch_to_tell(tmp_path: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable, match="it is not in a git repository"):
        git.default_branch(tmp_path, env=env)


# What CI asks


@pytest.fixture
def clone(root: Path, env: Env, tmp_path: Path) -> Path:
    """A clone of branch main alone, on a branch of its own, while main and another branch go on."""
    clone = tmp_path / "clone"
    run(tmp_path, env, "clone", "--quiet", "--single-branch", "--branch=main", str(root), str(clone))
    run(clone, env, "checkout", "--quiet", "-b", "faster")
    run(root, env, "checkout", "--quiet", "-b", "release/1.0")
    (root / "released.py").write_text("pass\n")
    run(root, env, "add", "--all")
    run(root, env, "commit", "--quiet", "--message=released")
    return clone


def test_a_branch_of_the_remote_is_fetched_and_nothing_else_is_changed(root: Path, clone: Path, env: Env) -> None:
    before = git.require_commit(clone, env=env)
    git.fetch_branch(clone, "release/1.0", env=env)
    assert git.resolve(clone, "refs/remotes/origin/release/1.0", env=env) == run(root, env, "rev-parse", "HEAD")
    assert git.require_commit(clone, env=env) == before
    assert run(clone, env, "config", "--get-all", "remote.origin.fetch") == "+refs/heads/main:refs/remotes/origin/main"


def test_a_shallow_clone_gets_its_history_with_the_branch(root: Path, env: Env, tmp_path: Path) -> None:
    for number in range(3):
        run(root, env, "commit", "--quiet", "--allow-empty", f"--message={number}")
    run(tmp_path, env, "clone", "--quiet", "--depth=1", f"file://{root}", "shallow")
    shallow = tmp_path / "shallow"
    assert git.cuts(shallow, env=env)
    git.fetch_branch(shallow, "main", env=env)
    assert git.cuts(shallow, env=env) == frozenset()
    assert git.resolve(shallow, "HEAD~3", env=env)


def test_a_branch_that_is_not_there_cannot_be_fetched(clone: Path, env: Env) -> None:
    with pytest.raises(RepositoryUnreadable) as refused:
        git.fetch_branch(clone, "gone", env=env)
    assert str(refused.value) == (
        f"{clone}: git fetch failed: fatal: couldn't find remote ref refs/heads/gone. "
        f"perfgate asks git which code it measures.\nSee what git says: git -C {clone} fetch"
    )


def test_files_that_a_branch_has_changed_are_told_from_those_of_the_other_side(
    root: Path, clone: Path, env: Env
) -> None:
    (clone / "baselines").mkdir()
    for name in ("new [1].json", "größe.json"):
        (clone / "baselines" / name).write_text("{}")
    (clone / "train.py").unlink()
    run(clone, env, "add", "--all")
    run(clone, env, "commit", "--quiet", "--message=faster")
    git.fetch_branch(clone, "release/1.0", env=env)
    other = "refs/remotes/origin/release/1.0"
    baselines = {"baselines/new [1].json": True, "baselines/größe.json": True}
    assert git.changed_since(clone, other, "baselines", env=env) == baselines
    assert git.changed_since(clone, other, "train.py", env=env) == {"train.py": False}
    assert git.changed_since(clone, "HEAD", "baselines", env=env) == {}
    with pytest.raises(RepositoryUnreadable, match="git diff failed: fatal: "):
        git.changed_since(clone, "gone", "baselines", env=env)


def test_what_is_not_as_head_has_it_is_told_by_path(root: Path, env: Env) -> None:
    assert git.changes(root, env=env) == ()
    (root / "train.py").rename(root / "moved.py")
    (root / "a folder").mkdir()
    (root / "a folder" / "new.py").touch()
    (root / "some.log").touch()
    assert set(git.changes(root / "workloads", env=env)) == {"train.py", "moved.py", "a folder/"}
