"""What a repository says of itself, of real repositories."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from support.repository import Repository

from perfgate.init.facts import Facts, Tool, find_facts
from perfgate.init.origin import asked_for
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable

GIT = f'{{"url": "https://example.org/perfgate.git", "vcs_info": {{"vcs": "git", "commit_id": "{"a" * 40}"}}}}'
URL = f"git+https://example.org/perfgate.git@{'a' * 40}"
TOOL = Tool(version="1.2.3", direct_url=GIT, python=(3, 12), has_torch=True)

HATCH = """\
[project]
name = "x"
version = "1"
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""


def facts(
    repository: Repository, start: Path | None = None, *, tool: Tool = TOOL, github: bool = True
) -> Facts:
    return find_facts(start or repository.root, tool=tool, github=github, env=repository.env)


NO_TORCH = "The project does not name torch: the workflows install the newest. See that it fits your driver."


def test_a_project_at_the_top_of_its_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top")
    repository.commit({"pyproject.toml": HATCH, "src/x/__init__.py": ""})
    found = facts(repository, repository.root / "src" / "x")
    assert (found.root, found.top, found.boundary) == (repository.root,) * 3
    assert found.folder == PurePosixPath(".")
    assert (found.pyproject, found.has_table) == (HATCH, False)
    assert (found.branch, found.python, found.remarks) == ("main", "3.12", (NO_TORCH,))
    assert found.install == (
        'python -m venv "$RUNNER_TEMP/venv"\n'
        f"\"$RUNNER_TEMP/venv/bin/pip\" install -q -e . torch 'perfgate[github] @ {URL}'\n"
    )
    assert found.install_perfgate == (
        'python -m venv "$RUNNER_TEMP/venv"\n'
        '"$RUNNER_TEMP/venv/bin/pip" install -q --require-hashes -r .github/perfgate-lock.txt\n'
        f"\"$RUNNER_TEMP/venv/bin/pip\" install -q --no-deps --no-build-isolation 'perfgate @ {URL}'\n"
    )


def test_a_project_in_a_folder_of_its_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top", within="services/train")
    repository.write({"pyproject.toml": HATCH})
    found = facts(repository)
    assert (found.root, found.top, found.boundary) == (
        repository.root,
        repository.top,
        repository.top,
    )
    assert found.folder == PurePosixPath("services/train")


def test_line_ends_are_kept(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top")
    (repository.root / "pyproject.toml").write_bytes(b"[tool.perfgate]\r\nruns = 5\r\n")
    found = facts(repository)
    assert (found.pyproject, found.has_table, found.settings.runs) == (
        "[tool.perfgate]\r\nruns = 5\r\n",
        True,
        5,
    )


def test_without_a_repository_there_is_no_top(tmp_path: Path) -> None:
    found = find_facts(tmp_path, tool=TOOL, github=True, env={"PATH": ""})
    assert (found.root, found.top, found.boundary) == (tmp_path, None, tmp_path)
    assert found.remarks == (
        "This is no git repository, so there is nothing for GitHub yet. For that: git init && perfgate init",
    )


def test_without_github_git_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "pyproject.toml").write_text(HATCH, encoding="utf-8")
    found = find_facts(tmp_path / "sub", tool=TOOL, github=False, env={"PATH": ""})
    assert (found.root, found.top, found.boundary) == (tmp_path / "sub", None, tmp_path)
    assert found.remarks == ()


def test_a_repository_that_git_cannot_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(RepositoryUnreadable, match="there is no git on the PATH"):
        find_facts(tmp_path, tool=TOOL, github=True, env={"PATH": ""})


def test_a_detached_head_among_no_branches_is_told(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top")
    repository.commit({"pyproject.toml": HATCH})
    repository.git("checkout", "--quiet", "--detach")
    repository.git("branch", "--delete", "--force", "main")
    found = facts(repository)
    assert found.branch == "main"
    assert found.remarks == (
        "No branch is known here: the workflows name main, correct that.",
        NO_TORCH,
    )


def test_what_the_user_should_look_at_is_told_together(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "top")
    tool = Tool(
        version="1",
        direct_url='{"url": "file:///x", "dir_info": {}}',
        python=(3, 12),
        has_torch=False,
    )
    assert facts(repository, tool=tool).remarks == (
        "No file says how the project is installed: add that to the install step of perfgate-gate.yml.",
        NO_TORCH,
        asked_for("this perfgate was installed from a folder or file of this machine"),
        "There is no torch here, which the example needs: install the CUDA build for your driver.",
    )


@pytest.mark.parametrize(
    ("raw", "fact"),
    [
        (
            b"[project\n",
            "it cannot be read as TOML (Expected ']' at the end of a table declaration (at line 1, column 9))",
        ),
        (
            b"# \xff\n",
            "it cannot be read ('utf-8' codec can't decode byte 0xff in position 2: invalid start byte)",
        ),
    ],
)
def test_a_pyproject_that_cannot_be_read_is_an_error(tmp_path: Path, raw: bytes, fact: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(raw)
    with pytest.raises(ConfigInvalid) as refused:
        find_facts(tmp_path, tool=TOOL, github=True)
    assert (refused.value.subject, refused.value.fact) == ("pyproject.toml", fact)
