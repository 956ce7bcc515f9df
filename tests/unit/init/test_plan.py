"""The scaffold beside what is there: states of files, places that are refused, and writing all or nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
import yaml

from perfgate.init import writing
from perfgate.init.facts import Facts
from perfgate.init.lock import Wanted
from perfgate.init.origin import Origin
from perfgate.init.plan import Planned, State, plan
from perfgate.init.templates import EXAMPLE, seal_of
from perfgate.init.writing import to_write, write
from perfgate.model.errors import ConfigInvalid, ScaffoldRefused, StoreFailed
from perfgate.model.settings import Settings

ALL = (
    "pyproject.toml",
    "workloads/example.py",
    ".github/workflows/perfgate.yml",
    ".github/workflows/perfgate-gate.yml",
    ".github/workflows/perfgate-approved.yml",
    ".github/workflows/perfgate-comment.yml",
    ".github/workflows/perfgate-bless.yml",
    ".github/workflows/perfgate-occasions.yml",
    ".github/actions/perfgate/action.yml",
)


def facts_of(top: Path, folder: str = ".", **changes: object) -> Facts:
    """Facts of a project without a pyproject.toml, on branch main."""
    root = top / folder
    root.mkdir(parents=True, exist_ok=True)
    found = Facts(
        root=root,
        top=top,
        boundary=top,
        folder=PurePosixPath(folder),
        pyproject=None,
        has_table=False,
        settings=Settings(),
        branch="main",
        python="3.12",
        install="install\n",
        install_perfgate="install perfgate\n",
        origin=Origin(url=None, why_not="nothing is"),
        lock=Wanted(python="3.12", requirements=(), origin=None),
        remarks=(),
        version="1.2.3",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def states(files: Sequence[Planned]) -> dict[str, State]:
    return {str(file.path): file.state for file in files}


def scaffold(facts: Facts) -> None:
    write(to_write(plan(facts), force=False))


def reread(facts: Facts) -> Facts:
    file = facts.root / "pyproject.toml"
    return replace(facts, pyproject=file.read_text(encoding="utf-8"), has_table=True)


def everything(top: Path) -> dict[str, bytes]:
    return {
        file.relative_to(top).as_posix(): file.read_bytes()
        for file in top.rglob("*")
        if file.is_file()
    }


def test_where_nothing_is_all_is_missing_and_then_all_is_there(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    assert states(plan(facts)) == dict.fromkeys(ALL, State.MISSING)
    scaffold(facts)
    assert set(everything(tmp_path)) == set(ALL)
    assert set(states(plan(reread(facts))).values()) == {State.SAME}
    assert to_write(plan(reread(facts)), force=True) == ()


def test_every_file_but_the_settings_begins_with_its_seal(tmp_path: Path) -> None:
    scaffold(facts_of(tmp_path))
    for name in ALL[1:]:
        seal = seal_of((tmp_path / name).read_text(encoding="utf-8"))
        assert seal is not None, name
        assert (seal.version, seal.intact) == ("1.2.3", True)


def test_in_a_monorepo_workflows_lie_at_the_top_and_work_in_the_folder(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, "services/a b")
    scaffold(facts)
    assert set(everything(tmp_path)) == {
        *("services/a b/pyproject.toml", "services/a b/workloads/example.py"),
        *ALL[2:],
    }
    gate = yaml.safe_load((tmp_path / ALL[3]).read_text(encoding="utf-8"))["jobs"]["gate"]
    *_, install, action = gate["steps"]
    assert (install["working-directory"], install["run"]) == ("services/a b", "install\n")
    assert action["with"]["working-directory"] == "services/a b"
    bless = yaml.safe_load((tmp_path / ALL[6]).read_text(encoding="utf-8"))["jobs"]["bless"]
    assert bless["steps"][-1]["working-directory"] == "branch/services/a b"


@pytest.mark.parametrize(
    "branch", ["feature/1.0", "on", "yes", "1e3", 'it\'s: "so" #1', "größe", "${{ x }}"]
)
def test_a_workflow_says_what_is_meant_whatever_the_branch_is_called(
    tmp_path: Path, branch: str
) -> None:
    scaffold(facts_of(tmp_path, branch=branch))
    assert yaml.safe_load((tmp_path / ALL[2]).read_text(encoding="utf-8"))[True]["push"][
        "branches"
    ] == [branch]
    gate = yaml.safe_load((tmp_path / ALL[3]).read_text(encoding="utf-8"))
    assert gate["jobs"]["gate"]["strategy"]["matrix"]["gpu"] == ["gpu"]
    (python,) = (
        one for one in gate["jobs"]["gate"]["steps"] if "setup-python" in one.get("uses", "")
    )
    assert python["with"]["python-version"] == "3.12"


def test_an_older_file_an_edited_one_and_one_of_other_facts_are_told_apart(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    scaffold(replace(facts, version="1.0.0"))
    assert set(states(plan(reread(facts))).values()) == {State.SAME, State.OLDER}
    assert {file.writer for file in plan(reread(facts)) if file.state is State.OLDER} == {"1.0.0"}
    write(to_write(plan(reread(facts)), force=True))
    gate, comment = tmp_path / ALL[3], tmp_path / ALL[5]
    gate.write_text(
        gate.read_text(encoding="utf-8").replace("    timeout-minutes: 90\n", ""), encoding="utf-8"
    )
    comment.write_text("on: push\n", encoding="utf-8")
    found = {str(file.path): file for file in plan(replace(reread(facts), python="3.13"))}
    assert {name: file.state for name, file in found.items()} == {
        ALL[0]: State.SAME,
        ALL[1]: State.SAME,
        ALL[2]: State.SAME,
        ALL[3]: State.EDITED,
        ALL[4]: State.SAME,
        ALL[5]: State.EDITED,
        ALL[6]: State.SAME,
        ALL[7]: State.OTHER,
        ALL[8]: State.SAME,
    }
    assert found[ALL[3]].lacks == ("job gate: no time limit (timeout-minutes)",)
    assert found[ALL[5]].lacks == (
        "it has no jobs",
        "no `permissions: {}` at the top: jobs that name none get the repository's default token",
    )
    assert (found[ALL[3]].writer, found[ALL[5]].writer) == ("1.2.3", "")


def test_a_newer_perfgates_file_is_not_called_older(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    scaffold(replace(facts, version="1.10.0"))
    assert set(states(plan(reread(facts))).values()) == {State.SAME, State.NEWER}
    scaffold(replace(facts_of(tmp_path / "b"), version="1.2.3.dev1"))
    assert set(states(plan(reread(replace(facts_of(tmp_path / "b"), version="1.3")))).values()) == {
        State.SAME,
        State.OLDER,
    }


@pytest.mark.parametrize(
    ("writer", "state"),
    [
        ("1.2.3rc1", State.OLDER),
        ("1.2.3.dev4", State.OLDER),
        ("1.2.3.post1", State.NEWER),
        ("neither", State.OLDER),
    ],
)
def test_a_pre_release_comes_before_its_release(tmp_path: Path, writer: str, state: State) -> None:
    scaffold(facts_of(tmp_path, version=writer))
    assert set(states(plan(reread(facts_of(tmp_path)))).values()) == {State.SAME, state}


def test_line_ends_that_git_changed_are_no_edit(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    scaffold(facts)
    for file in tmp_path.rglob("*.yml"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert set(states(plan(reread(facts))).values()) == {State.SAME}


def test_only_forced_and_only_what_is_githubs_is_overwritten(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    scaffold(facts)
    edited = {name: f"# mine, {name}\n" for name in ALL[2:]}
    for name, text in edited.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ALL[0]).write_text("[tool.perfgate]\nruns = 7\n", encoding="utf-8")
    (tmp_path / ALL[1]).write_text("import perfgate  # workload(\n", encoding="utf-8")
    before = everything(tmp_path)
    assert to_write(plan(reread(facts)), force=False) == ()
    write(to_write(plan(reread(facts)), force=True))
    after = everything(tmp_path)
    assert {name for name in after if after[name] != before[name]} == set(edited)
    assert set(states(plan(reread(facts))).values()) == {State.SAME}


def test_a_file_keeps_its_mode_when_it_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[project]\n", encoding="utf-8")
    file.chmod(0o640)
    scaffold(facts_of(tmp_path, pyproject="[project]\n"))
    assert file.stat().st_mode & 0o777 == 0o640
    assert "[tool.perfgate]" in file.read_text(encoding="utf-8")


OLDER = "jobs:\n  gate:\n    steps:\n      - uses: ./.github/actions/perfgate\n"
"""A gate as older scaffolds had it, in perfgate.yml, of the project at the top."""


def test_a_gate_in_the_workflow_of_older_scaffolds_is_one_of_its_project(tmp_path: Path) -> None:
    file = tmp_path / ALL[2]
    file.parent.mkdir(parents=True)
    file.write_text(OLDER, encoding="utf-8")
    found = states(plan(facts_of(tmp_path)))
    assert (found[ALL[2]], found[ALL[3]], found[ALL[4]]) == (
        State.EDITED,
        State.MISSING,
        State.MISSING,
    )
    others = states(plan(facts_of(tmp_path, "tools")))
    assert others[".github/workflows/perfgate-tools-gate.yml"] is State.MISSING
    assert not {ALL[2], ALL[3], ALL[4]} & others.keys()


# Workloads


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.py", "from perfgate import workload\n@workload()\ndef x(steps): ...\n"),
        ("deep/er/mine.py", "import perfgate\n@perfgate.workload()\ndef x(steps): ...\n"),
        ("train.yaml", "command: [python, train.py]\nstep: x\n"),
        ("train.YML", "command: [python, train.py]\nstep: x\n"),
    ],
)
def test_where_there_is_a_workload_there_is_no_example(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / "workloads" / name
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    assert states(plan(facts_of(tmp_path)))[f"workloads/{name}"] is State.SAME
    scaffold(facts_of(tmp_path))
    assert not (tmp_path / "workloads" / "example.py").exists()


@pytest.mark.parametrize(
    "name", ["conftest.py", "_shared.py", ".hidden/x.py", "notes.txt", "empty.py"]
)
def test_what_is_no_workload_does_not_stand_in_for_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / "workloads" / name
    file.parent.mkdir(parents=True)
    file.write_text(
        "" if name == "empty.py" else "from perfgate import workload\nworkload()\n",
        encoding="utf-8",
    )
    scaffold(facts_of(tmp_path))
    assert (
        (tmp_path / "workloads" / "example.py")
        .read_text(encoding="utf-8")
        .endswith(EXAMPLE.read_text("utf-8"))
    )


def test_an_example_of_somebody_elses_is_left_even_when_forced(tmp_path: Path) -> None:
    file = tmp_path / "workloads" / "example.py"
    file.parent.mkdir()
    file.write_text("x = 1\n", encoding="utf-8")
    facts = facts_of(tmp_path)
    assert states(plan(facts))["workloads/example.py"] is State.EDITED
    write(to_write(plan(facts), force=True))
    assert file.read_text(encoding="utf-8") == "x = 1\n"


def test_workloads_elsewhere_are_written_where_the_settings_say(tmp_path: Path) -> None:
    settings = Settings(workloads="../shared/loops")
    scaffold(facts_of(tmp_path, "train", settings=settings))
    assert (tmp_path / "shared" / "loops" / "example.py").is_file()


# What is refused


def in_the_way(top: Path, case: str) -> None:
    outside = top.parent / "outside"
    outside.mkdir(exist_ok=True)
    match case:
        case "workloads":
            (top / "workloads").write_text("", encoding="utf-8")
        case ".github":
            (top / ".github").write_text("", encoding="utf-8")
        case ".github/workflows":
            (top / ".github").mkdir()
            (top / ".github" / "workflows").symlink_to(outside)
        case ".github/workflows/perfgate.yml":
            (top / case).mkdir(parents=True)
        case ".github/workflows/perfgate-bless.yml":
            (top / ".github" / "workflows").mkdir(parents=True)
            (top / case).symlink_to(top / "nothing")
        case ".github/actions":
            (top / ".github").mkdir()
            (top / case).symlink_to(top / case)
        case _:
            raise AssertionError(case)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "workloads",
            "workloads: it is no folder. A folder, for example.py, belongs there.\nMove it away",
        ),
        (
            ".github",
            ".github: it is no folder. A folder, for perfgate.yml, belongs there.\nMove it away",
        ),
        (
            ".github/workflows",
            (
                ".github/workflows: it is a link that leads out of the project, or nowhere. "
                "Files are written only below {top}.\nReplace the link by a file or folder of its own"
            ),
        ),
        (
            ".github/workflows/perfgate.yml",
            ".github/workflows/perfgate.yml: it is no file. A file belongs there.\nMove it away",
        ),
        (
            ".github/workflows/perfgate-bless.yml",
            (
                ".github/workflows/perfgate-bless.yml: it is a link that leads out of the project, or nowhere. "
                "Files are written only below {top}.\nReplace the link by a file or folder of its own"
            ),
        ),
        (
            ".github/actions",
            (
                ".github/actions: it is a link that leads out of the project, or nowhere. "
                "Files are written only below {top}.\nReplace the link by a file or folder of its own"
            ),
        ),
    ],
)
def test_what_is_in_the_way_is_told_before_anything_is_written(
    tmp_path: Path, case: str, told: str
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    in_the_way(top, case)
    before = everything(tmp_path)
    with pytest.raises(ScaffoldRefused) as refused:
        plan(facts_of(top))
    assert str(refused.value) == f"{told.format(top=top)}, then run again. Nothing was written."
    assert everything(tmp_path) == before


def test_workloads_outside_of_the_repository_are_refused(tmp_path: Path) -> None:
    top = tmp_path / "top"
    with pytest.raises(ScaffoldRefused) as refused:
        plan(facts_of(top, settings=Settings(workloads="../loops")))
    assert str(refused.value) == (
        f"{tmp_path}/loops/example.py: it lies outside. Files are written only below {top}.\n"
        "Name a folder in the project: workloads of [tool.perfgate]. Nothing was written."
    )


def test_a_link_within_the_repository_is_followed_and_stays(tmp_path: Path) -> None:
    real = tmp_path / "config" / "pyproject.toml"
    real.parent.mkdir()
    real.write_text("# mine\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").symlink_to(real)
    scaffold(facts_of(tmp_path, pyproject="# mine\n"))
    assert (tmp_path / "pyproject.toml").is_symlink()
    assert real.read_text(encoding="utf-8").startswith("# mine\n\n[tool.perfgate]\n")


def test_a_file_of_megabytes_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / ALL[3]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ScaffoldRefused) as refused:
        plan(facts_of(tmp_path))
    assert str(refused.value) == (
        f"{file}: it has more than 1,048,576 bytes. What is there is compared before anything is written.\n"
        "Move it away, then run again. Nothing was written."
    )


def test_a_table_that_cannot_be_appended_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be appended"):
        plan(facts_of(tmp_path, pyproject="tool = 3\n"))


# Writing


def test_a_disk_that_fails_midway_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = to_write(plan(facts_of(tmp_path)), force=False)
    synced: list[int] = []

    def full(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 4:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFailed) as failed:
        write(files)
    assert str(failed.value) == (
        ".github/workflows/perfgate-gate.yml: it could not be written (No space left on device). "
        "Nothing was written.\nSee to it that this user may write there and the disk has room, then run again."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(
        _folder: Path,
    ) -> None:  # root may write anywhere, so no real folder refuses everybody
        raise PermissionError(13, "Permission denied")

    files = to_write(plan(facts_of(tmp_path)), force=False)
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreFailed) as failed:
        write(files)
    assert str(failed.value) == (
        "workloads/example.py: it could not be written (Permission denied). Nothing was written.\n"
        "See to it that this user may write there and the disk has room, then run again."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changed_meanwhile_is_left(tmp_path: Path) -> None:
    files = to_write(plan(facts_of(tmp_path)), force=False)
    (tmp_path / "pyproject.toml").write_text("# mine\n", encoding="utf-8")
    with pytest.raises(ScaffoldRefused) as refused:
        write(files)
    assert str(refused.value) == (
        "pyproject.toml: it was changed while perfgate init ran. What was compared is what is replaced.\nRun again."
    )
    assert everything(tmp_path) == {"pyproject.toml": b"# mine\n"}
    assert [folder.name for folder in tmp_path.iterdir()] == ["pyproject.toml"]


def test_what_was_written_before_a_failure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = to_write(plan(facts_of(tmp_path)), force=False)
    put = writing._put

    def failing(file: Planned, place: Path, temporary: Path) -> None:
        if file is files[2]:
            raise OSError(5, "Input/output error")
        put(file, place, temporary)

    monkeypatch.setattr(writing, "_put", failing)
    with pytest.raises(StoreFailed) as failed:
        write(files)
    assert failed.value.expectation == "Written before it: pyproject.toml, workloads/example.py"
    assert set(everything(tmp_path)) == {"pyproject.toml", "workloads/example.py"}
