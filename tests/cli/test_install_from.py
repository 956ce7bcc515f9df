"""Where runners get perfgate from, and what jobs with write tokens install: as `perfgate init`
writes it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from support.project import Project
from support.repository import IDENTITY
from support.wheelhouse import wheel

pytestmark = pytest.mark.behaviour

COMMIT = "5" * 40
URL = f"git+https://git.example.org/perfgate.git@{COMMIT}"
HASH = "c" * 64
LOCK = ".github/perfgate-lock.txt"
NEEDS = ("click>=8.1", "numpy>=1.26", 'PyGithub>=2.6; extra == "github"', 'ruff; extra == "dev"')


class Installed:
    """A perfgate whose metadata says how it was installed, in a repository; pip has a folder of
    wheels for an index."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        for name, needs in (
            ("click", ()),
            ("numpy", ()),
            ("PyGithub", ("idna>=3",)),
            ("hatchling", ()),
            ("idna", ()),
        ):
            wheel(self.wheels, name, needs=needs)
        self.online()
        self.by(None)

    def by(self, direct_url: object) -> None:
        """Say how it was installed: PEP 610's direct_url.json, None for an index."""
        told = None if direct_url is None else json.dumps(direct_url)

        class Distribution:
            requires: ClassVar = list(NEEDS)

            def read_text(self, name: str) -> str | None:
                return told if name == "direct_url.json" else None

        self.project.patch.setattr(importlib.metadata, "distribution", lambda _: Distribution())

    def online(self, wheels: Path | None = None) -> None:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            self.project.patch.delenv(name)
        self.project.patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        self.project.patch.setenv("PIP_NO_INDEX", "1")
        self.project.patch.setenv("PIP_FIND_LINKS", str(wheels or self.wheels))

    def init(self, *words: str) -> tuple[int, str]:
        seen = self.project.perfgate("init", *words)
        return seen.status, seen.out + seen.err

    def text(self, name: str) -> str:
        return (self.project.root / name).read_text(encoding="utf-8")

    def files(self) -> dict[str, bytes]:
        below = (
            file
            for file in self.project.root.rglob("*")
            if file.is_file() and ".git" not in file.parts
        )
        return {str(file): file.read_bytes() for file in below}

    def installs(self) -> dict[str, list[str]]:
        """The scripts of the steps called Install, by workflow and job."""
        found: dict[str, list[str]] = {}
        for file in sorted((self.project.root / ".github" / "workflows").glob("*.yml")):
            for name, job in yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].items():
                for step in job.get("steps", ()):
                    if step.get("name") == "Install":
                        found.setdefault(f"{file.stem}/{name}", []).append(step["run"])
        return found


@pytest.fixture
def installed(project: Project, tmp_path: Path) -> Installed:
    """A perfgate in an empty repository."""
    (tmp_path / "home").mkdir()
    project.patch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(
        ["git", "init", "--quiet", "--initial-branch=main"], cwd=project.root, check=True
    )
    return Installed(project, tmp_path)


def asks_an_index(script: str) -> bool:
    """Whether a script has a word by which pip would ask an index for perfgate."""
    words = [word for line in script.splitlines() for word in shlex.split(line)]
    return any(re.fullmatch(r"perfgate(\[.*\])?\s*([=<>~!].*)?", word) for word in words)


UNREACHABLE: dict[str, object] = {
    "an index": None,
    "a folder": {"url": "file:///home/ada/perfgate", "dir_info": {}},
    "in place": {"url": "file:///home/ada/perfgate", "dir_info": {"editable": True}},
    "a wheel of this machine": {
        "url": "file:///tmp/perfgate-1-py3-none-any.whl",
        "archive_info": {},
    },
    "a wheel without a hash": {
        "url": "https://example.org/perfgate-1-py3-none-any.whl",
        "archive_info": {},
    },
    "a server of this machine": {
        "url": "http://127.0.0.1:8000/perfgate.git",
        "vcs_info": {"vcs": "git", "commit_id": COMMIT},
    },
    "localhost": {
        "url": "https://localhost/perfgate.git",
        "vcs_info": {"vcs": "git", "commit_id": COMMIT},
    },
    "a git folder": {
        "url": "file:///srv/perfgate.git",
        "vcs_info": {"vcs": "git", "commit_id": COMMIT},
    },
    "no commit": {
        "url": "https://example.org/perfgate.git",
        "vcs_info": {"vcs": "git", "commit_id": "main"},
    },
    "another system": {
        "url": "https://example.org/perfgate",
        "vcs_info": {"vcs": "svn", "commit_id": "7"},
    },
    "a signed address": {
        "url": "https://example.org/perfgate-1-py3-none-any.whl?token=hunter2",
        "archive_info": {"hashes": {"sha256": HASH}},
    },
    "no object": [],
}


@pytest.mark.parametrize("how", UNREACHABLE, ids=str)
def test_where_no_runner_reaches_it_each_install_step_fails_and_says_so(
    installed: Installed, how: str, tmp_path: Path
) -> None:
    installed.by(UNREACHABLE[how])
    status, told = installed.init()
    assert (status, "--install-from" in told, "hunter2" in told) == (0, True, False)
    scripts = installed.installs()
    assert {"perfgate-gate/gate", "perfgate-comment/comment", "perfgate-bless/bless"} < set(scripts)
    for ran in (script for each in scripts.values() for script in each):
        assert not asks_an_index(ran)
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", ran],
            env={"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert done.stdout.startswith("::error::")
        assert "--install-from" in done.stdout
    status, told = installed.init("--check")
    assert (status, "--install-from" in told) == (1, True)


@pytest.mark.parametrize(
    ("direct_url", "url"),
    [
        (
            {
                "url": "https://git.example.org/perfgate.git",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
            },
            URL,
        ),
        (
            {
                "url": "https://ada:hunter2@git.example.org/perfgate.git",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
            },
            URL,
        ),
        (
            {
                "url": "https://example.org/perfgate-1-py3-none-any.whl",
                "archive_info": {"hash": f"sha256={HASH}"},
            },
            f"https://example.org/perfgate-1-py3-none-any.whl#sha256={HASH}",
        ),
    ],
)
def test_what_a_runner_reaches_is_installed_by_its_address(
    installed: Installed, direct_url: object, url: str
) -> None:
    installed.by(direct_url)
    status, told = installed.init()
    assert (status, "--install-from" in told) == (0, False)
    for name, (script,) in installed.installs().items():
        words = shlex.split(script.replace("\n", " ; "))
        assert not asks_an_index(script)
        assert [word for word in words if word.endswith(f" @ {url}")] != [], name
    assert (
        "hunter2"
        not in "".join(map(installed.text, [f".github/workflows/{one}.yml" for one in ALL])) + told
    )
    assert installed.init("--check")[0] == 0


ALL = (
    "perfgate",
    "perfgate-gate",
    "perfgate-approved",
    "perfgate-comment",
    "perfgate-bless",
    "perfgate-occasions",
)


def test_the_address_may_be_given_and_is_known_from_then_on(installed: Installed) -> None:
    installed.by({"url": "file:///home/ada/perfgate", "dir_info": {}})
    assert installed.init()[0] == 0
    assert installed.init("--check")[0] == 1
    assert installed.init("--force", "--install-from", URL)[0] == 0
    before = installed.files()
    assert installed.init("--check")[0] == 0
    assert installed.init()[0] == 0
    assert installed.init("--force")[0] == 0
    assert installed.files() == before


@pytest.mark.parametrize(
    "said",
    [
        *(
            "perfgate",
            "perfgate==1",
            "git+https://example.org/perfgate.git",
            "git+https://example.org/p.git@main",
        ),
        *(
            f"git+file:///srv/p.git@{COMMIT}",
            f"git+https://localhost/p.git@{COMMIT}",
            "https://example.org/p.whl",
        ),
        *(
            "../perfgate",
            f"git+https://[::1]/p.git@{COMMIT}",
            f"git+https://[/p.git@{COMMIT}",
            "",
            f"{URL} ; rm -r .",
        ),
    ],
)
def test_an_address_that_does_not_stay_what_it_is_is_refused(
    installed: Installed, said: str
) -> None:
    before = installed.files()
    status, told = installed.init("--install-from", said)
    assert (status, "--install-from" in told) == (10, True)
    assert installed.files() == before


def test_jobs_with_write_tokens_install_only_what_a_hash_locks(installed: Installed) -> None:
    installed.init("--install-from", URL)
    locked = {
        line.split("==")[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
        for line in installed.text(LOCK).splitlines()
        if "==" in line and not line.startswith("#")
    }
    wheels = {
        file.name.split("-")[0]: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in installed.wheels.iterdir()
    }
    assert locked == {name: [digest] for name, digest in wheels.items()}
    writing = []
    for name in ALL:
        for job, told in yaml.safe_load(installed.text(f".github/workflows/{name}.yml"))[
            "jobs"
        ].items():
            if "write" in (told.get("permissions") or {}).values():
                writing.append(f"{name}/{job}")
    assert writing == [
        "perfgate-comment/comment",
        "perfgate-bless/bless",
        "perfgate-occasions/occasions",
    ]
    for name in writing:
        (script,) = installed.installs()[name]
        first, second = (line for line in script.splitlines() if " install " in line)
        assert "--require-hashes -r .github/perfgate-lock.txt" in first
        assert {"--no-deps", "--no-build-isolation"} <= set(shlex.split(second))


def test_what_is_locked_is_what_pip_takes(installed: Installed, tmp_path: Path) -> None:
    installed.init("--install-from", URL)
    target = tmp_path / "target"
    command = ["pip", "install", "-q", "--require-hashes", f"--target={target}", "-r", LOCK]
    done = subprocess.run([sys.executable, "-m", *command], cwd=installed.project.root, check=False)
    assert done.returncode == 0
    assert {one.name for one in target.glob("*.dist-info")} == {
        f"{f.stem.split('-')[0]}-99.0.dist-info" for f in installed.wheels.iterdir()
    }


def test_without_an_index_nothing_is_written(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    installed.online(tmp_path / "none")
    before = installed.files()
    status, told = installed.init("--install-from", URL)
    assert (status, "click" in told, "Traceback" in told) == (43, True, False)
    assert installed.files() == before
    assert installed.init("--no-github")[0] == 0


def test_a_lock_file_is_asked_for_once_and_renewed_when_told(
    installed: Installed, tmp_path: Path
) -> None:
    installed.init("--install-from", URL)
    first = installed.text(LOCK)
    wheel(installed.wheels, "click", "100.0")
    assert installed.init()[0] == 0
    assert installed.text(LOCK) == first
    before = installed.files()
    assert installed.init("--renew-lock")[0] == 0
    assert "click==100.0" in installed.text(LOCK)
    assert {name for name, held in installed.files().items() if before[name] != held} == {
        str(installed.project.root / LOCK)
    }
    (tmp_path / "none").mkdir()
    installed.online(tmp_path / "none")
    assert installed.init()[0] == 0, "what is there is enough"


def test_a_lock_file_that_does_not_lock_is_lacking(installed: Installed) -> None:
    installed.init("--install-from", URL)
    assert installed.init("--check")[0] == 0
    whole = installed.text(LOCK)
    spoiled = {
        "no hash": re.sub(r"(click==\S+).*", r"\1", whole),
        "no version": whole + "evil\n",
        "an index": whole + "--index-url https://example.org/simple\n",
        "perfgate": whole + "perfgate==0.1.0\n",
        "other requirements": whole.replace("click>=8.1, ", ""),
        "empty": "",
    }
    for how, text in spoiled.items():
        (installed.project.root / LOCK).write_text(text, encoding="utf-8")
        assert installed.init("--check", "--install-from", URL)[0] == 1, how
    assert installed.init("--force", "--install-from", URL)[0] == 0
    assert installed.init("--check")[0] == 0


def test_hashes_that_a_robot_updates_are_no_fault(installed: Installed) -> None:
    installed.init("--install-from", URL)
    text = re.sub(
        r"click==99.0 .*",
        f"click==99.1 \\\\\n    --hash=sha256:{HASH} \\\\\n    --hash=sha256:{'d' * 64}",
        installed.text(LOCK),
    )
    (installed.project.root / LOCK).write_text(text, encoding="utf-8")
    assert installed.init("--check")[0] == 0


def test_workflows_of_before_that_ask_an_index_are_lacking(installed: Installed) -> None:
    installed.init("--install-from", URL)
    for name in ("perfgate-gate", "perfgate-bless"):
        file = installed.project.root / f".github/workflows/{name}.yml"
        text = file.read_text(encoding="utf-8")
        by_name = re.sub(r"'perfgate(\[github\])? @ \S+'", "'perfgate[github]==0.1.0'", text)
        file.write_text(by_name, encoding="utf-8")
        assert installed.init("--check")[0] == 1
        file.write_text(text, encoding="utf-8")


def test_a_job_with_a_write_token_that_installs_without_hashes_is_lacking(
    installed: Installed,
) -> None:
    installed.init("--install-from", URL)
    file = installed.project.root / ".github/workflows/perfgate-comment.yml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("--require-hashes ", ""), encoding="utf-8")
    assert installed.init("--check")[0] == 1


@pytest.mark.parametrize("pushed", [True, False])
def test_the_commit_of_a_folder_is_suggested_if_it_is_pushed_and_never_used(
    installed: Installed, tmp_path: Path, pushed: bool
) -> None:
    clone = tmp_path / "clone"

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *words], cwd=clone, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    clone.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    git("remote", "add", "origin", "git@git.example.org:tools/perfgate.git")
    git("commit", "--quiet", "--allow-empty", "-m", "one")
    sha = git("rev-parse", "HEAD")
    if pushed:
        git("update-ref", "refs/remotes/origin/main", sha)
    installed.by({"url": clone.as_uri(), "dir_info": {"editable": True}})
    told = installed.init()[1]
    suggested = f"git+ssh://git@git.example.org/tools/perfgate.git@{sha}"
    assert (suggested in told) is pushed
    assert suggested not in "".join(
        map(installed.text, [f".github/workflows/{one}.yml" for one in ALL])
    )
