"""What `perfgate doctor` says of a runner that could not install perfgate, and of standing options
of pytest-xdist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.project import Project, Seen

from perfgate.cli import starting
from perfgate.init.project import InstalledTool

pytestmark = pytest.mark.behaviour

FOLDER = InstalledTool(
    version="1.2.3",
    direct_url='{"url": "file:///home/ada/perfgate", "dir_info": {}}',
    python="3.12",
    has_torch=True,
)


@pytest.fixture
def repository(project: Project, tmp_path: Path) -> Project:
    """A repository, in which perfgate was installed from a folder."""
    (tmp_path / "home").mkdir()
    project.patch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(
        ["git", "init", "--quiet", "--initial-branch=main"], cwd=project.root, check=True
    )
    project.patch.setattr(starting, "this_perfgate", lambda: FOLDER)
    return project


def found(seen: Seen, check: str) -> tuple[str, str] | None:
    """The word of a check, and what is said of it."""
    blocks = seen.out.split("\n\n")[0].splitlines()
    for at, line in enumerate(blocks):
        if line[6:].strip() == check:
            more = blocks[at + 1 :]
            end = next((n for n, one in enumerate(more) if not one.startswith("      ")), len(more))
            return line[:4].strip(), " ".join(one.strip() for one in more[:end])
    return None


def test_doctor_says_whether_a_runner_can_install_perfgate(repository: Project) -> None:
    def of_workflows() -> tuple[str, str] | None:
        return found(repository.perfgate("doctor", columns=120), "workflows")

    assert of_workflows() is None
    assert repository.perfgate("init").status == 0
    failing = of_workflows()
    assert failing is not None
    assert (failing[0], "--install-from" in failing[1]) == ("FAIL", True)
    url = f"git+https://git.example.org/perfgate.git@{'5' * 40}"
    assert repository.perfgate("init", "--force", "--install-from", url).status == 0
    well = of_workflows()
    assert well is not None
    assert well[0] == "ok"
