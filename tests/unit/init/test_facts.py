"""What a repository says of itself, of real repositories."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from support.repository import Repository

from perfgate.init.facts import Asked, Facts, Tool, find_facts
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable

GIT = (
    '{"url": "https://example.org/perfgate.git", '
    f'"vcs_info": {{"vcs": "git", "commit_id": "{"a" * 40}"}}}}'
)
TOOL = Tool(version="1.2.3", direct_url=GIT, python=(3, 12), has_torch=True)
HATCH = """\
[project]
name = "x"
version = "1"
dependencies = ["torch"]
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""


def facts(repository: Repository, start: Path | None = None, tool: Tool = TOOL) -> Facts:
    return find_facts(start or repository.root, tool, Asked(), env=repository.env)


def codes(found: Facts) -> list[str]:
    return [one.code for one in found.notes]


def test_a_project_is_found_in_its_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top", within="services/train")
    repository.commit({"pyproject.toml": HATCH.replace("\n", "\r\n"), "src/x/__init__.py": ""})
    found = facts(repository, repository.root / "src" / "x")
    assert (found.root, found.top) == (repository.root, repository.top)
    assert (found.boundary, found.folder) == (repository.top, PurePosixPath("services/train"))
    assert (found.branch, found.python, found.notes) == ("main", "3.12", ())
    assert found.pyproject == (repository.root / "pyproject.toml").read_bytes().decode()


def test_without_a_repository_or_github_there_is_no_top_and_git_is_not_asked(
    tmp_path: Path,
) -> None:
    found = find_facts(tmp_path, TOOL, Asked(), env={"PATH": ""})
    assert (found.root, found.top, found.boundary) == (tmp_path, None, tmp_path)
    assert codes(found) == ["nothing-for-github-yet"]
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pyproject.toml").write_text(HATCH, encoding="utf-8")
    found = find_facts(tmp_path / "sub", TOOL, Asked(github=False), env={"PATH": ""})
    assert (found.root, found.top, found.boundary) == (tmp_path / "sub", None, tmp_path)
    with pytest.raises(RepositoryUnreadable):
        find_facts(tmp_path, TOOL, Asked(), env={"PATH": ""})


def test_what_the_user_should_look_at_is_said_together(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top")
    repository.commit({"pyproject.toml": HATCH.replace('["torch"]', "[]")})
    repository.git("checkout", "--quiet", "--detach")
    repository.git("branch", "--delete", "--force", "main")
    here = '{"url": "file:///x", "dir_info": {}}'
    tool = Tool(version="1", direct_url=here, python=(3, 12), has_torch=False)
    found = facts(repository, tool=tool)
    assert found.branch == "main"
    assert codes(found) == [
        *("branch-not-known", "torch-not-named", "origin-unknown", "torch-not-here"),
    ]


@pytest.mark.parametrize("raw", [b"[project\n", b"\xff"])
def test_a_pyproject_that_cannot_be_read_is_an_error(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(raw)
    with pytest.raises(ConfigInvalid):
        find_facts(tmp_path, TOOL, Asked(), env={"PATH": ""})
