"""Other commits, checked out and removed again."""

from __future__ import annotations

from pathlib import Path

from support.asked import Env, run

from perfgate.system import git


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
