"""The scaffold beside what is there: states of files, places that are refused, and writing all or
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
import yaml

from perfgate.init.facts import Facts
from perfgate.init.lock import Wanted
from perfgate.init.origin import Origin
from perfgate.init.plan import Planned, State, plan
from perfgate.init.templates import EXAMPLE, seal_of
from perfgate.init.writing import to_write, write
from perfgate.model.errors import ConfigInvalid, ScaffoldRefused, StoreFailed
from perfgate.model.note import note
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
        settings=Settings(),
        branch="main",
        python="3.12",
        install="install\n",
        install_perfgate="install perfgate\n",
        origin=Origin(url=None, notes=(note("origin-by-name"),)),
        lock=Wanted(python="3.12", requirements=(), origin=None),
        notes=(),
        version="1.2.3",
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def states(files: Sequence[Planned]) -> dict[str, State]:
    return {str(file.path): file.state for file in files}


def scaffold(facts: Facts) -> None:
    write(to_write(plan(facts), force=False))


def reread(facts: Facts) -> Facts:
    file = facts.root / "pyproject.toml"
    return replace(facts, pyproject=file.read_text(encoding="utf-8"))


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
    "case",
    [
        *("workloads", ".github", ".github/workflows", ".github/workflows/perfgate.yml"),
        *(".github/workflows/perfgate-bless.yml", ".github/actions"),
    ],
)
def test_what_is_in_the_way_is_refused_before_anything_is_written(
    tmp_path: Path, case: str
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    in_the_way(top, case)
    before = everything(tmp_path)
    with pytest.raises(ScaffoldRefused) as refused:
        plan(facts_of(top))
    assert (refused.value.code, refused.value.fields["path"]) == ("place-not-written-to", case)
    assert everything(tmp_path) == before


def test_workloads_outside_of_the_repository_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScaffoldRefused) as refused:
        plan(facts_of(tmp_path / "top", settings=Settings(workloads="../loops")))
    assert refused.value.code == "place-not-written-to"


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
    assert refused.value.code == "place-not-read"


def test_a_table_that_cannot_be_appended_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid):
        plan(facts_of(tmp_path, pyproject="tool = 3\n"))


# Writing


def test_a_disk_that_fails_leaves_whole_files_which_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = to_write(plan(facts_of(tmp_path)), force=False)
    put = Path.replace

    def failing(temporary: Path, place: Path) -> Path:
        if place == files[2].target:
            raise OSError(28, "No space left on device")
        return put(temporary, place)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(StoreFailed) as failed:
        write(files)
    assert failed.value.fields["path"] == str(files[2].path)
    assert failed.value.fields["written"] == ("pyproject.toml", "workloads/example.py")
    assert set(everything(tmp_path)) == {"pyproject.toml", "workloads/example.py"}


def test_a_file_that_changed_meanwhile_is_left(tmp_path: Path) -> None:
    files = to_write(plan(facts_of(tmp_path)), force=False)
    (tmp_path / "pyproject.toml").write_text("# mine\n", encoding="utf-8")
    with pytest.raises(ScaffoldRefused):
        write(files)
    assert everything(tmp_path) == {"pyproject.toml": b"# mine\n"}
