"""A project in a git repository of its own, with a commit to go back to in an A/B run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def run_git(cwd: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run git as somebody, and return what it printed."""
    done = subprocess.run(
        ("git", *IDENTITY, *words), cwd=cwd, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


class Repository:
    """A git repository, and the project's root in it."""

    def __init__(self, top: Path, *, within: str = ".") -> None:
        self.top = top
        self.root = top / within
        home = top.parent / "home"
        home.mkdir(exist_ok=True)
        self.env: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        """An environment without the configuration of this machine."""
        self.root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """Run git as somebody, and return what it printed."""
        return run_git(cwd or self.top, *words, env=self.env)

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, by their path from the project's root."""
        for name, text in files.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def commit(self, files: Mapping[str, str] | None = None) -> str:
        """Write files and commit all there is; return the SHA."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a commit")
        return self.git("rev-parse", "HEAD")

    @property
    def folder(self) -> Path:
        """Where worktrees are made."""
        return self.root / ".perfgate" / "worktrees"

    @property
    def left(self) -> list[str]:
        """What is left of worktrees: folders, and git's entries but for the repository
        itself."""
        entries = [
            line.split(" ", 1)[1]
            for line in self.git("worktree", "list", "--porcelain").splitlines()
            if line.startswith("worktree ")
        ]
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted([*names, *entries[1:]])
