"""`perfgate init`: as a newcomer meets it, in repositories of all sorts."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.project import Project, Seen
from support.workflow_rules import broken
from syrupy.assertion import SnapshotAssertion

from perfgate.cli import starting
from perfgate.init.project import InstalledTool

COMMIT = "a" * 40
GIT = (
    f'{{"url": "https://git.example.org/perfgate.git", '
    f'"vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'
)
URL = f"git+https://git.example.org/perfgate.git@{COMMIT}"
TOOL = InstalledTool(version="1.2.3", direct_url=GIT, python="3.12", has_torch=True)

GITHUB = (
    ".github/workflows/perfgate.yml",
    ".github/workflows/perfgate-gate.yml",
    ".github/workflows/perfgate-approved.yml",
    ".github/workflows/perfgate-comment.yml",
    ".github/workflows/perfgate-bless.yml",
    ".github/workflows/perfgate-occasions.yml",
    ".github/actions/perfgate/action.yml",
    ".github/perfgate-lock.txt",
)


@pytest.fixture
def empty(project: Project, tmp_path: Path) -> Project:
    """An empty folder in no repository; perfgate 1.2.3 from a git URL, on Python 3.12."""
    (project.root / "pyproject.toml").unlink()
    (project.root / "workloads").rmdir()
    (tmp_path / "home").mkdir()
    project.patch.setenv("HOME", str(tmp_path / "home"))
    project.patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    project.patch.setattr(starting, "this_perfgate", lambda: TOOL)
    return project


@pytest.fixture
def repository(empty: Project) -> Project:
    """A folder after `git init`, on branch main, with a project that is installed by hatchling."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=empty.root, check=True)
    project = '[project]\nname = "x"\nversion = "1"\ndependencies = ["torch>=2"]\n'
    empty.write("pyproject.toml", f'{project}[build-system]\nbuild-backend = "hatchling"\n')
    return empty


def files(project: Project) -> dict[str, bytes]:
    return {
        file.relative_to(project.root).as_posix(): file.read_bytes()
        for file in project.root.rglob("*")
        if file.is_file() and ".git" not in file.relative_to(project.root).parts
    }


def rows(seen: Seen) -> dict[str, str]:
    """What is said of each file."""
    lines = seen.out.split("\n\n")[1].splitlines()
    return {path: word.strip() for word, path in (line.rsplit(maxsplit=1) for line in lines)}


def test_in_an_empty_folder_it_writes_a_workload_and_the_settings(
    empty: Project, snapshot: SnapshotAssertion
) -> None:
    seen = empty.perfgate("init")
    assert (seen.status, seen.err) == (0, "")
    assert seen.out == snapshot
    assert set(files(empty)) == {"pyproject.toml", "workloads/example.py"}
    table = tomllib.loads((empty.root / "pyproject.toml").read_text(encoding="utf-8"))
    assert table == {"tool": {"perfgate": {"workloads": "workloads", "baselines": "baselines"}}}


def test_in_a_repository_it_writes_the_workflows_as_well(
    repository: Project, snapshot: SnapshotAssertion
) -> None:
    seen = repository.perfgate("init")
    assert (seen.status, seen.err) == (0, "")
    assert seen.out == snapshot
    assert set(files(repository)) == {"pyproject.toml", "workloads/example.py", *GITHUB}


def test_a_second_time_there_is_nothing_to_do(repository: Project) -> None:
    repository.perfgate("init")
    before = files(repository)
    seen = repository.perfgate("init")
    assert seen.status == 0
    assert set(rows(seen).values()) == {"there already"}
    assert files(repository) == before


def test_github_can_be_left_out(repository: Project) -> None:
    seen = repository.perfgate("init", "--no-github")
    assert seen.status == 0
    assert set(files(repository)) == {"pyproject.toml", "workloads/example.py"}
    assert repository.perfgate("init", "--no-github", "--check").status == 0
    assert repository.perfgate("init", "--check").status == 1


def test_an_edited_file_is_shown_and_left_until_it_is_forced(
    repository: Project, snapshot: SnapshotAssertion
) -> None:
    repository.perfgate("init")
    gate = repository.root / GITHUB[1]
    edited = gate.read_text(encoding="utf-8").replace('gpu: ["gpu"]', 'gpu: ["gpu", "h100"]')
    gate.write_text(edited, encoding="utf-8")
    seen = repository.perfgate("init")
    assert seen.status == 0
    assert re.sub(r"(?m)^@@ .* @@$", "@@", seen.out) == snapshot
    assert gate.read_text(encoding="utf-8") == edited
    assert repository.perfgate("init", "--check").status == 0, "what was edited may be as good"
    forced = repository.perfgate("init", "--force")
    assert rows(forced)[GITHUB[1]] == "written"
    assert '-        gpu: ["gpu", "h100"]\n' in forced.out
    assert gate.read_text(encoding="utf-8") == edited.replace(', "h100"', "")


def test_a_foreign_workflow_of_that_name_is_shown_and_left(repository: Project) -> None:
    repository.write(GITHUB[0], "name: \x1b[31mred\non: push\n")
    seen = repository.perfgate("init")
    assert rows(seen)[GITHUB[0]] != "written"
    assert "\n-name: \\x1b[31mred\n" in seen.out
    assert files(repository)[GITHUB[0]] == b"name: \x1b[31mred\non: push\n"


def test_check_says_what_is_missing_and_what_another_perfgate_wrote(
    repository: Project, snapshot: SnapshotAssertion
) -> None:
    assert repository.perfgate("init", "--check").status == 1
    assert repository.perfgate("init", "--check", "--force").status == 2
    assert set(files(repository)) == {"pyproject.toml"}
    repository.patch.setattr(starting, "this_perfgate", lambda: replace(TOOL, version="1.0.0"))
    repository.perfgate("init")
    repository.patch.setattr(starting, "this_perfgate", lambda: TOOL)
    (repository.root / GITHUB[3]).unlink()
    before = files(repository)
    seen = repository.perfgate("init", "--check")
    assert (seen.status, seen.err) == (1, "")
    assert seen.out == snapshot
    assert files(repository) == before
    repository.perfgate("init", "--force")
    assert repository.perfgate("init", "--check").status == 0


def test_check_lets_files_of_other_settings_be(repository: Project) -> None:
    repository.perfgate("init")
    repository.patch.setattr(starting, "this_perfgate", lambda: replace(TOOL, python="3.13"))
    seen = repository.perfgate("init", "--check")
    assert seen.status == 0
    assert rows(seen)[GITHUB[1]] != rows(seen)[GITHUB[0]] == "up to date"


def test_settings_that_are_there_are_used_and_left(repository: Project) -> None:
    text = '# mine\r\n[tool.perfgate]\r\nworkloads = "loops" # here\r\nruns = 5\r\n'
    (repository.root / "pyproject.toml").write_bytes(text.encode())
    seen = repository.perfgate("init", "--force")
    assert (repository.root / "loops" / "example.py").is_file()
    assert seen.status == 0
    assert files(repository)["pyproject.toml"] == text.encode()


def test_from_a_folder_of_a_src_layout_the_project_is_found(repository: Project) -> None:
    repository.write("src/x/__init__.py", "")
    repository.patch.chdir(repository.root / "src" / "x")
    seen = repository.perfgate("init")
    assert seen.status == 0
    assert f"'perfgate[github] @ {URL}'" in files(repository)[GITHUB[1]].decode()


def test_a_project_in_a_monorepo_gets_its_workflows_at_the_top(repository: Project) -> None:
    repository.write(
        "services/train/pyproject.toml",
        '[project]\nname = "t"\n[tool.pytest.ini_options]\naddopts = ""\n',
    )
    repository.patch.chdir(repository.root / "services" / "train")
    seen = repository.perfgate("init")
    assert "services/train/workloads/example.py" in rows(seen)
    assert 'working-directory: "services/train"\n' in files(repository)[GITHUB[1]].decode()
    assert repository.perfgate("init", "--check").status == 0


def broken_settings(project: Project) -> None:
    project.write("pyproject.toml", "[project\n")


def file_of_workloads(project: Project) -> None:
    project.write("workloads", "")


def link_that_leads_out(project: Project) -> None:
    elsewhere = Path(os.environ["HOME"]) / "elsewhere"
    elsewhere.mkdir()
    (project.root / ".github").symlink_to(elsewhere)


def link_to_nothing(project: Project) -> None:
    (project.root / ".github").symlink_to("nowhere")


def link_to_itself(project: Project) -> None:
    (project.root / ".github").symlink_to(".github")


@pytest.mark.parametrize(
    ("arrange", "status", "named"),
    [
        (broken_settings, 10, "pyproject.toml"),
        (file_of_workloads, 43, "workloads"),
        (link_that_leads_out, 43, ".github"),
        (link_to_nothing, 43, ".github"),
        (link_to_itself, 43, ".github"),
    ],
)
def test_where_it_cannot_write_it_is_an_error_and_nothing_is_written(
    repository: Project, arrange: Callable[[Project], None], status: int, named: str
) -> None:
    arrange(repository)
    before = files(repository)
    seen = repository.perfgate("init")
    assert (seen.status, seen.out) == (status, "")
    assert f"{named}:" in seen.err
    assert files(repository) == before
    assert not any((repository.root / ".github").glob("*"))


# What is written, as GitHub reads it

STUB = """\
#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/pip" ;;
*) printf '%s\\n' "$@" >"$WORDS" ;;
esac
"""
"""A python that makes environments whose pip writes down its words."""


def test_the_install_steps_install_what_is_meant(repository: Project, tmp_path: Path) -> None:
    repository.write("requirements.txt", "")
    repository.perfgate("init")
    bin_, temp = tmp_path / "bin", tmp_path / "runner temp"
    bin_.mkdir()
    temp.mkdir()
    (bin_ / "python").write_text(STUB, encoding="utf-8")
    (bin_ / "python").chmod(0o755)
    env = {
        "PATH": f"{bin_}:/usr/bin:/bin",
        "RUNNER_TEMP": str(temp),
        "WORDS": str(tmp_path / "words"),
    }
    perfgate = ["--no-deps", "--no-build-isolation", f"perfgate @ {URL}"]
    project = ["-r", "requirements.txt", "-e", ".", f"perfgate[github] @ {URL}"]
    installed = []
    for name in GITHUB[:6]:
        jobs = yaml.safe_load((repository.root / name).read_text(encoding="utf-8"))["jobs"]
        for step in (
            step
            for job in jobs.values()
            for step in job.get("steps", [])
            if step.get("name") == "Install"
        ):
            subprocess.run(
                ["bash", "-eo", "pipefail", "-c", step["run"]],
                cwd=repository.root,
                env=env,
                check=True,
            )
            installed.append((tmp_path / "words").read_text(encoding="utf-8").splitlines())
    meant = (perfgate, project, perfgate, perfgate, perfgate, project, perfgate)
    assert installed == [["install", "-q", *words] for words in meant]


def test_zizmor_finds_nothing_in_what_it_writes(repository: Project) -> None:
    repository.perfgate("init")
    check(
        repository,
        "zizmor",
        "--offline",
        "--no-config",
        "--pedantic",
        "--strict-collection",
        ".github",
    )


def test_what_it_writes_keeps_the_safety_rules(repository: Project) -> None:
    repository.perfgate("init")
    assert broken(repository.root / ".github" / "workflows") == []


def check(project: Project, tool: str, *words: str) -> None:
    """Run a checker of the dev extra."""
    program = Path(sys.executable).with_name(tool)
    done = subprocess.run(
        [program, *words],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_writes_is_collected_by_a_gate(repository: Project) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch here: it is in the extra torch")
    repository.perfgate("init")
    seen = repository.run("--perfgate", "--collect-only", "-q")
    assert seen.out.splitlines()[0] == "workloads/example.py::example"
