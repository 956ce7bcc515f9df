"""How a project and perfgate are installed on a runner, as files say it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.init import install


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "pyproject", "words", "remarks"),
    [
        (
            (),
            {"project": {}, "build-system": {"build-backend": "hatchling.build"}},
            ("-e", "."),
            (),
        ),
        ((), {"build-system": {"build-backend": "flit_core.buildapi"}}, ("-e", "."), ()),
        (("requirements.txt",), {}, ("-r", "requirements.txt"), ()),
        (("requirements-gpu.txt",), {}, ("-r", "requirements-gpu.txt"), ()),
        (
            ("requirements.txt", "requirements-dev.txt"),
            {},
            ("-r", "requirements.txt"),
            ("The workflows do not install requirements-dev.txt: add what the workloads need.",),
        ),
        (
            ("requirements-a.txt", "requirements-b.txt", "uv.lock"),
            {"project": {}, "build-system": {"build-backend": "hatchling.build"}},
            ("-e", "."),
            (
                "The workflows do not install requirements-a.txt, requirements-b.txt: add what the workloads need.",
                "The workflows install with pip, which does not read uv.lock: versions may differ from yours.",
            ),
        ),
        (
            ("environment.yml",),
            {},
            (),
            (
                "environment.yml is not used: the workflows install with pip. Add what it brings and pip does not.",
                "No file says how the project is installed: add that to the install step of perfgate-gate.yml.",
            ),
        ),
        (
            ("setup.py",),
            {},
            ("-e", "."),
            (
                "Ignore *.egg-info/ in .gitignore: what an installation leaves makes a measured commit dirty.",
            ),
        ),
    ],
)
def test_what_pip_installs_is_what_the_files_say(
    tmp_path: Path,
    files: tuple[str, ...],
    pyproject: dict[str, object],
    words: tuple[str, ...],
    remarks: tuple[str, ...],
) -> None:
    touch(tmp_path, *files)
    assert install.install_words(tmp_path, pyproject) == (words, remarks)


def test_a_setuptools_project_that_ignores_egg_info_gets_no_remark(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.egg-info/\n", encoding="utf-8")
    assert install.install_words(tmp_path, {"build-system": {"requires": ["setuptools"]}}) == (
        ("-e", "."),
        (),
    )


@pytest.mark.parametrize(
    ("asked", "running", "chosen"),
    [
        (None, (3, 13), "3.13"),
        (">=3.9", (3, 12), "3.12"),
        (">=3.13", (3, 12), "3.13"),
        (">=3.11,<3.13", (3, 14), "3.12"),
        ("<3.13.2", (3, 14), "3.13"),
        ("<=3.12", (3, 14), "3.12"),
        ("==3.12.*", (3, 11), "3.12"),
        ("~=3.12.1", (3, 14), "3.12"),
        ("~=3.11", (3, 14), "3.14"),
        (">=3.10, !=3.12.0, <4", (3, 12), "3.12"),
        ("what is this", (3, 12), "3.12"),
        ("", (3, 12), "3.12"),
    ],
)
def test_the_running_python_is_taken_where_the_project_takes_it(
    tmp_path: Path, asked: str | None, running: tuple[int, int], chosen: str
) -> None:
    pyproject = {} if asked is None else {"project": {"requires-python": asked}}
    assert install.python_version(tmp_path, pyproject, running=running) == install.Found(
        value=chosen
    )


@pytest.mark.parametrize(
    ("pinned", "chosen"),
    [
        ("3.12\n", "3.12"),
        ("3.13.1", "3.13"),
        ("cpython-3.12.4\n3.11", "3.12"),
        ("pypy3.10", "3.14"),
        ("", "3.14"),
    ],
)
def test_a_pinned_python_comes_first(tmp_path: Path, pinned: str, chosen: str) -> None:
    (tmp_path / ".python-version").write_text(pinned, encoding="utf-8")
    assert install.python_version(tmp_path, {}, running=(3, 14)) == install.Found(value=chosen)


def test_a_python_too_old_for_perfgate_is_told(tmp_path: Path) -> None:
    asked = install.python_version(
        tmp_path, {"project": {"requires-python": "<3.11"}}, running=(3, 12)
    )
    (tmp_path / ".python-version").write_text("3.10", encoding="utf-8")
    pinned = install.python_version(tmp_path, {}, running=(3, 12))
    assert (asked.value, pinned.value) == ("3.11", "3.11")
    assert asked.remarks == ("requires-python is '<3.11', but perfgate needs 3.11 or newer.",)
    assert pinned.remarks == (".python-version says 3.10, but perfgate needs 3.11 or newer.",)


def test_names_of_files_are_no_part_of_the_shells_language() -> None:
    script = install.script("-r", "requirements-$(touch x);'\".txt")
    first, second = script.splitlines()
    assert first == 'python -m venv "$RUNNER_TEMP/venv"'
    assert shlex.split(second) == [
        *("$RUNNER_TEMP/venv/bin/pip", "install", "-q"),
        *("-r", "requirements-$(touch x);'\".txt"),
    ]


@pytest.mark.parametrize(
    ("files", "pyproject", "named"),
    [
        ({}, {}, False),
        ({}, {"project": {"name": "x"}}, False),
        (
            {},
            {
                "project": {
                    "name": "x",
                    "dependencies": ["numpy", "torchvision", "pytorch-lightning"],
                }
            },
            False,
        ),
        ({}, {"project": {"name": "x", "dependencies": ["Torch >= 2.2"]}}, True),
        (
            {},
            {"project": {"name": "x", "dependencies": ["torch[opt]; sys_platform == 'linux'"]}},
            True,
        ),
        ({}, {"project": {"name": "x", "dynamic": ["dependencies"]}}, True),
        ({}, {"build-system": {}}, True),
        ({"requirements.txt": "numpy\ntorch==2.6.0 # CUDA 12.4\n"}, {}, True),
        ({"requirements.txt": "torch-geometric\n"}, {}, False),
        ({"requirements.txt": "-r others.txt\n"}, {}, True),
    ],
    ids=[
        "nothing",
        "none",
        "others",
        "named",
        "extra",
        "dynamic",
        "setup",
        "file",
        "other file",
        "file of files",
    ],
)
def test_torch_is_installed_where_the_project_does_not_name_it(
    tmp_path: Path, files: Mapping[str, str], pyproject: Mapping[str, object], named: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words, _ = install.install_words(tmp_path, pyproject)
    beside, remarks = install.torch_words(tmp_path, words, pyproject)
    assert (beside, len(remarks)) == (((), 0) if named else (("torch",), 1))
