"""Where runners get perfgate from, and what jobs with write tokens install: as `perfgate init`
writes it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from support.actions import ROOT
from support.project import Project

pytestmark = pytest.mark.behaviour

COMMIT = "5" * 40
URL = f"git+https://git.example.org/perfgate.git@{COMMIT}"
HASH = "c" * 64


class Installed:
    """A perfgate whose metadata says how it was installed, in a repository."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.by(None)

    def by(self, direct_url: object) -> None:
        """Say how it was installed: PEP 610's direct_url.json, None for an index."""
        text = None if direct_url is None else json.dumps(direct_url)

        class Distribution:
            def read_text(self, name: str) -> str | None:
                return text if name == "direct_url.json" else None

        self.project.patch.setattr(importlib.metadata, "distribution", lambda _: Distribution())

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

    def doctor(self) -> tuple[str, bool]:
        """The word of the doctor's check of workflows, if it makes one, and whether it says what to
        give."""
        out = self.project.perfgate("doctor", columns=120).out
        words = [line.split() for line in out.splitlines()]
        word = next((one[0] for one in words if one[1:] == ["workflows"]), "")
        return word, "--install-from" in out


@pytest.fixture
def installed(project: Project, tmp_path: Path) -> Installed:
    """A perfgate in an empty repository."""
    (tmp_path / "home").mkdir()
    project.patch.setenv("HOME", str(tmp_path / "home"))
    subprocess.run(
        ["git", "init", "--quiet", "--initial-branch=main"], cwd=project.root, check=True
    )
    return Installed(project)


def asks_an_index(script: str) -> bool:
    """Whether a script has a word by which pip would ask an index for perfgate."""
    words = [word for line in script.splitlines() for word in shlex.split(line)]
    return any(re.fullmatch(r"perfgate(\[.*\])?\s*([=<>~!].*)?", word) for word in words)


def by_git(url: str, commit: str = COMMIT) -> object:
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": commit}}


UNREACHABLE: dict[str, object] = {
    "an index": None,
    "a folder": {"url": "file:///home/ada/perfgate", "dir_info": {}},
    "a wheel without a hash": {
        "url": "https://example.org/perfgate-1-py3-none-any.whl",
        "archive_info": {},
    },
    "a server of this machine": by_git("http://127.0.0.1:8000/perfgate.git"),
    "a git folder": by_git("file:///srv/perfgate.git"),
    "no commit": by_git("https://example.org/perfgate.git", "main"),
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
    status, shown = installed.init()
    assert (status, "--install-from" in shown, "hunter2" in shown) == (0, True, False)
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
    status, shown = installed.init("--check")
    assert (status, "--install-from" in shown, "Nothing is lacking" in shown) == (1, True, False)


@pytest.mark.parametrize(
    ("direct_url", "url"),
    [
        (by_git("https://git.example.org/perfgate.git"), URL),
        (by_git("https://ada:hunter2@git.example.org/perfgate.git"), URL),
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
    status, shown = installed.init()
    assert (status, "--install-from" in shown) == (0, False)
    for name, (script,) in installed.installs().items():
        words = shlex.split(script.replace("\n", " ; "))
        assert not asks_an_index(script)
        assert [word for word in words if word.endswith(f" @ {url}")] != [], name
    assert (
        "hunter2"
        not in "".join(map(installed.text, [f".github/workflows/{one}.yml" for one in ALL])) + shown
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
    installed.by(UNREACHABLE["a folder"])
    assert installed.doctor() == ("", False)
    assert installed.init()[0] == 0
    assert (installed.init("--check")[0], installed.doctor()) == (1, ("FAIL", True))
    assert installed.init("--force", "--install-from", URL)[0] == 0
    assert installed.doctor() == ("ok", False)
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
    status, shown = installed.init("--install-from", said)
    assert (status, "--install-from" in shown) == (10, True)
    assert installed.files() == before


def test_the_lock_file_holds_all_that_perfgate_needs_by_hash() -> None:
    lines = (ROOT / "perfgate/init/files/perfgate-lock.txt").read_text("utf-8").splitlines()
    locked = [line for line in lines if not line.startswith("#")]
    assert locked.pop(0) == "--only-binary :all:"
    assert [one for one in locked if not re.fullmatch(r"\S+==\S+ --hash=sha256:\w{64}", one)] == []
    versions = dict(line.split()[0].split("==") for line in locked)
    names = {name.casefold().replace("_", "-"): version for name, version in versions.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for text in (*needed, *project["project"]["optional-dependencies"]["github"]):
        requirement = Requirement(text)
        assert names[requirement.name.casefold()] in requirement.specifier
    ours = (ROOT / ".github/perfgate-lock.txt").read_text("utf-8").splitlines()
    assert [line for line in ours if not line.startswith("#")] == [
        line for line in lines if not line.startswith("#")
    ]
