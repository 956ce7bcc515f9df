"""Small programs stand in for nsys: finding a program means running it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.refused import refused

from perfgate.model.errors import NsysNotFound, NsysUnsupported, PerfgateError
from perfgate.profilers.nsys.tool import NsysVersion, find_nsys

NOWHERE: tuple[str, ...] = ()


def nsys(path: Path, version: str) -> Path:
    return program(path, f"echo 'NVIDIA Nsight Systems version {version}'")


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVIDIA Nsight Systems version 2024.2.3.38-242334140272v0", NsysVersion(2024, 2, 3, 38)),
        ("NVIDIA Nsight Systems version 2022.4.2.1-df9881f", NsysVersion(2022, 4, 2, 1)),
        ("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0\n", NsysVersion(2025, 3, 1, 90)),
        ("NVIDIA Nsight Systems version 2026.1", NsysVersion(2026, 1)),
        ("Nsight", None),
        ("", None),
    ],
)
def test_versions_are_read_from_what_nsys_prints(text: str, version: NsysVersion | None) -> None:
    assert NsysVersion.parse(text) == version


def test_the_option_comes_before_the_variable_and_the_variable_before_path(tmp_path: Path) -> None:
    option = nsys(tmp_path / "option" / "nsys", "2024.1.1.1")
    variable = nsys(tmp_path / "variable" / "nsys", "2024.2.1.1")
    on_path = nsys(tmp_path / "path" / "nsys", "2024.3.1.1")
    env = {"PERFGATE_NSYS": str(variable), "PATH": str(on_path.parent)}
    assert find_nsys(str(option), env, places=NOWHERE).path == option
    assert find_nsys(None, env, places=NOWHERE).path == variable
    assert find_nsys(None, {"PATH": env["PATH"]}, places=NOWHERE).path == on_path
    assert find_nsys(None, {**env, "PERFGATE_NSYS": ""}, places=NOWHERE).path == on_path


def test_path_comes_before_the_usual_folders_even_if_older(tmp_path: Path) -> None:
    on_path = nsys(tmp_path / "bin" / "nsys", "2023.4.4.54")
    nsys(tmp_path / "opt" / "2025.1" / "nsys", "2025.1.1.1")
    assert (
        find_nsys(None, {"PATH": str(on_path.parent)}, places=[f"{tmp_path}/opt/*/nsys"]).path
        == on_path
    )


def test_of_the_usual_folders_the_newest_is_taken(tmp_path: Path) -> None:
    nsys(tmp_path / "2024.10" / "nsys", "2024.10.1.1")
    newest = nsys(tmp_path / "2025.1" / "nsys", "2025.1.3.1")
    nsys(tmp_path / "2024.9" / "nsys", "2024.9.1.1")
    tool = find_nsys(None, {}, places=[f"{tmp_path}/2024*/nsys", f"{tmp_path}/2025*/nsys"])
    assert tool.path == newest
    assert tool.version == NsysVersion(2025, 1, 3, 1)


def test_what_was_come_upon_and_does_not_run_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "nsys", "echo 'no Nsight Systems installation found' >&2; exit 1")
    good = nsys(tmp_path / "opt" / "nsys", "2024.2.3.38")
    assert (
        find_nsys(None, {"PATH": str(tmp_path / "bin")}, places=[f"{tmp_path}/opt/nsys"]).path
        == good
    )


def test_nothing_found_lists_where_it_looked(tmp_path: Path) -> None:
    places = ["/no/such/*/nsys", "/none/here/*/nsys", "/no/such/bin/nsys"]
    with pytest.raises(NsysNotFound) as caught:
        find_nsys(None, {"PATH": str(tmp_path)}, places=places)
    assert caught.value.code == "program-not-found"
    named = ("--perfgate-nsys", "PERFGATE_NSYS", "[tool.perfgate] nsys")
    assert caught.value.fields["looked"] == (*named, "PATH", "/no/such", "/none/here")


@pytest.mark.parametrize(
    ("body", "error", "code"),
    [
        ("echo 'cannot find the target folder'; exit 1", NsysNotFound, "program-not-run"),
        ("exec sleep 60", NsysNotFound, "program-not-run"),
        ("echo network simulator 3", NsysUnsupported, "program-unsupported"),
        ("echo version 2021.3.3.2-b99c4d6", NsysUnsupported, "program-unsupported"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_one_that_is_of_no_use_is_an_error_if_there_is_no_other(
    tmp_path: Path, body: str, error: type[PerfgateError], code: str, *, is_named: bool
) -> None:
    path = program(tmp_path / "nsys", body)
    env = {"PATH": f"{'' if is_named else tmp_path}:/usr/bin:/bin"}
    with pytest.raises(error) as caught:
        find_nsys(str(path) if is_named else None, env, places=NOWHERE, timeout_s=0.5)
    source = "--perfgate-nsys" if is_named else "PATH"
    assert (caught.value.code, caught.value.fields["source"]) == (code, source)


def test_what_another_program_says_is_called_no_version(tmp_path: Path) -> None:
    path = program(tmp_path / "nsys", "echo network simulator 3")
    with pytest.raises(NsysUnsupported) as caught:
        find_nsys(str(path), {}, places=NOWHERE)
    assert ": its --version says network simulator 3. " in str(caught.value)


@pytest.mark.parametrize("name", ["/no/such/nsys", f"/{'a' * 300}", "/", "no-such-nsys"])
def test_a_named_nsys_that_is_not_there_is_an_error_whatever_is_on_path(
    tmp_path: Path, name: str
) -> None:
    nsys(tmp_path / "nsys", "2024.2.3.38")
    with refused(NsysNotFound, "program-not-run"):
        find_nsys(name, {"PATH": str(tmp_path)}, places=NOWHERE)
    (tmp_path / "nsys").chmod(0o644)
    with pytest.raises(NsysNotFound):
        find_nsys(str(tmp_path / "nsys"), {}, places=NOWHERE)


def test_the_tool_keeps_only_the_variables_it_needs(tmp_path: Path) -> None:
    path = nsys(tmp_path / "nsys", "2024.2.3.38")
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/me",
        "FAKE_TOKEN": "hush",
        "LC_ALL": "de_DE.UTF-8",
    }
    assert find_nsys(str(path), env, places=NOWHERE).env == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/me",
    }
