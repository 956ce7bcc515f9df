"""`perfgate merge`: real gates of shards, one after the other in one project, and what comes of
them together."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import records
from support.fake_nvml import FakeGpu
from support.project import Project, loops
from syrupy.assertion import SnapshotAssertion

from perfgate.model.metric import Metric
from perfgate.model.pagedata import PageData

Shard = Callable[..., int]

NAMES = ("alpha", "beta", "gamma")
SLOWER = records.run({Metric.H2D_COPIES: 3})
OUTPUTS = (
    "--json=all.json",
    "--html=all.html",
    "--page-data=page.json",
    "--markdown=all.md",
    "--junit=all.xml",
)


@pytest.fixture
def three(project: Project) -> Project:
    """A committed project of three workloads with baselines, on an H200."""
    project.gpus()
    project.workload(loops(*NAMES))
    for name in NAMES:
        project.bless(project.baseline(name))
    project.write(".gitignore", "/gates/\n/all.*\n/page.json\n__pycache__/\n.out\n.err\n")
    project.commit()
    project.measures(records.run())
    return project


@pytest.fixture
def shard(three: Project) -> Shard:
    """Gate a shard into a folder of its own; return its exit status."""

    def gated(index: int, *more: str, of: int = 2, gpu: str = "h200", page: bool = True) -> int:
        label, folder = f"{gpu} {index}/{of}", f"gates/{gpu}-{index}"
        asked = [
            f"--perfgate-shard={index}/{of}",
            f"--perfgate-label={label}",
            f"--perfgate-json={folder}/perfgate.json",
        ]
        asked += [f"--perfgate-page-data={folder}/page.json"] if page else []
        return three.gate(*asked, *more).status

    return gated


def test_two_open_shards_are_one_open_gate(three: Project, shard: Shard) -> None:
    assert (shard(1), shard(2)) == (0, 0)
    seen = three.perfgate("merge", "gates", "--expect=2", *OUTPUTS)
    assert (seen.status, seen.err) == (0, "")
    assert re.sub(r"\[[^]]*\]", "[]", seen.out) == (
        "gate      GPU          workloads  state\n"
        "--------  -----------  ---------  -----\n"
        "h200 1/2  NVIDIA H200          2  open\n"
        "h200 2/2  NVIDIA H200          1  open\n"
        "\n"
        "PASSED  alpha  step_ms 12.34  +0.0 % []  budget 2 %  5 runs\n"
        "PASSED  gamma  step_ms 12.34  +0.0 % []  budget 2 %  5 runs\n"
        "PASSED  beta   step_ms 12.34  +0.0 % []  budget 2 %  5 runs\n"
        "GATE OPEN: 3 PASSED\n"
    )
    merged = three.written("all.json")
    assert (merged.opens_gate, merged.exit_status, merged.shut_by, merged.information) == (
        True,
        0,
        (),
        (),
    )
    assert merged.commit is not None
    assert merged.commit.sha == three.git("rev-parse", "HEAD")
    assert merged.machine == merged.workloads[0].machine
    assert [(one.verdict.workload, one.gate) for one in merged.workloads] == [
        ("alpha", "h200 1/2"),
        ("gamma", "h200 1/2"),
        ("beta", "h200 2/2"),
    ]
    assert {one.machine.gpu_name for one in merged.workloads if one.machine is not None} == {
        "NVIDIA H200"
    }
    page = PageData.model_validate_json((three.root / "page.json").read_text("utf-8"))
    assert all(one.baseline is not None for one in page.workloads)
    assert "GATE OPEN" in (three.root / "all.html").read_text("utf-8")


def test_one_shut_shard_shuts_the_gate_and_every_file_says_so(three: Project, shard: Shard) -> None:
    assert shard(1) == 0
    three.measures(SLOWER)
    assert shard(2) == 1
    seen = three.perfgate("merge", "gates", "--expect=2", *OUTPUTS)
    assert seen.status == 1
    assert seen.out.splitlines()[-1] == "GATE SHUT: 1 REGRESSED of 3 workloads"
    merged = three.written("all.json")
    assert (merged.opens_gate, merged.exit_status, merged.shut_by) == (
        False,
        1,
        ("beta: REGRESSED",),
    )
    markdown = (three.root / "all.md").read_text("utf-8")
    assert markdown.startswith("## perfgate: gate \u274c shut\n\n- beta: REGRESSED\n\n| workload |")
    assert "\n| `h200 2/2` | `NVIDIA H200` | `1` | `shut` |\n" in markdown
    cases = {
        case.get("name"): case
        for case in ElementTree.parse(three.root / "all.xml").iter("testcase")
    }
    assert {name for name, case in cases.items() if case.find("failure") is not None} == {"beta"}


def test_a_missing_shard_shuts_the_gate_with_and_without_expect(
    three: Project, shard: Shard
) -> None:
    assert shard(1) == 0
    expected = three.perfgate("merge", "gates", "--expect=2", "--json=all.json")
    assert (expected.status, codes(three)) == (1, ("merge-not-as-expected", "merge-shards-missing"))
    assert three.perfgate("merge", "gates/h200-1", "--json=all.json").status == 1
    assert codes(three) == ("merge-shards-missing",)


def codes(three: Project) -> tuple[str, ...]:
    """What shuts the merged gate, of its document."""
    return three.written("all.json").shut_codes


def test_a_workload_on_two_kinds_of_gpu_is_two_rows(three: Project, shard: Shard) -> None:
    assert shard(1, of=1) == 0
    three.gpus(FakeGpu(name="NVIDIA H100 80GB HBM3", utilisation=0))
    three.measures(records.run())
    assert shard(1, of=1, gpu="h100") == 1  # its baselines are of the H200
    seen = three.perfgate("merge", "gates/h200-1", "gates/h100-1", *OUTPUTS)
    assert seen.status == 1
    assert seen.out.splitlines()[-1] == "GATE SHUT: 3 INCOMPARABLE of 6 workloads"
    assert "PASSED        beta on NVIDIA H200 " in seen.out
    merged = three.written("all.json")
    assert merged.shut_by == tuple(
        f"{name} on NVIDIA H100 80GB HBM3: INCOMPARABLE" for name in NAMES
    )
    assert merged.machine is None
    page = PageData.model_validate_json((three.root / "page.json").read_text("utf-8"))
    assert [(one.verdict, one.gate, one.machine) for one in page.workloads] == [
        (one.verdict, one.gate, one.machine) for one in merged.workloads
    ]
    assert "### `beta on NVIDIA H100 80GB HBM3`: INCOMPARABLE" in (three.root / "all.md").read_text(
        "utf-8"
    )


def test_folders_without_a_gate_and_no_folders_are_a_shut_gate(
    three: Project, snapshot: SnapshotAssertion
) -> None:
    (three.root / "gates" / "empty").mkdir(parents=True)
    seen = three.perfgate(
        "merge", "gates", "nowhere", "--expect=1", "--json=all.json", "--html=all.html"
    )
    assert seen.status == 1
    assert seen.out == snapshot
    assert codes(three) == (
        "merge-no-gate",
        "merge-no-folder",
        "merge-not-as-expected",
        "merge-nothing-judged",
    )
    assert three.written("all.json").workloads == ()
    assert "GATE SHUT" in (three.root / "all.html").read_text("utf-8")


def test_without_the_pages_data_the_page_is_made_of_the_document_and_says_so(
    three: Project, shard: Shard
) -> None:
    assert (shard(1), shard(2, page=False)) == (0, 0)
    seen = three.perfgate("merge", "gates", "--html=all.html", columns=200)
    assert seen.status == 0
    remark = (
        "Without blessed runs, timelines and history "
        "on the page, for want of a page.json: h200 2/2."
    )
    assert f"note        {remark}\nGATE OPEN: 3 PASSED\n" in seen.out
    assert remark in (three.root / "all.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--json=workloads"], "output-unwritable"),
        (["--html="], "output-unwritable"),
        (["--junit=pyproject.toml/x"], "output-unwritable"),
        (["--expect=0"], None),
    ],
)
def test_what_cannot_be_asked_for_is_wrong_usage(
    three: Project, shard: Shard, arguments: list[str], code: str | None
) -> None:
    shard(1, of=1)
    seen = three.perfgate("merge", "gates", *arguments)
    assert seen.status == 2
    assert code is None or seen.codes == {code}
    assert sorted(three.root.glob("all.*")) == []


def test_merge_without_a_folder_is_wrong_usage(three: Project, snapshot: SnapshotAssertion) -> None:
    seen = three.perfgate("merge")
    assert seen.status == 2
    assert seen.err == snapshot


@pytest.mark.parametrize("full", ["all.html", "all.md", "page.json", "all.xml", "all.json"])
def test_a_file_that_cannot_be_written_shuts_the_merged_gate_in_all_others(
    three: Project, shard: Shard, full: str
) -> None:
    assert shard(1, of=1) == 0

    (three.root / full).symlink_to("/dev/full")
    seen = three.perfgate("merge", "gates", *OUTPUTS, columns=200)
    last = seen.out.splitlines()[-1]
    assert (seen.status, "file-unwritten" in seen.codes) == (1, True)
    assert full in last
    for name in ("all.html", "page.json", "all.json", "all.xml"):
        assert name == full or f"{full}: " in (three.root / name).read_text("utf-8"), name


# What is read


def make_link(folder: Path) -> None:
    file = folder / "perfgate.json"
    file.rename(folder / "real.json")
    file.symlink_to("real.json")


def make_pipe(folder: Path) -> None:
    (folder / "page.json").unlink()
    os.mkfifo(folder / "page.json")


def change(file: str, **fields: object) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        held = json.loads((folder / file).read_text("utf-8"))
        (folder / file).write_text(json.dumps({**held, **fields}), encoding="utf-8")

    return changed


@pytest.mark.parametrize(
    ("spoil", "file"),
    [
        (make_link, "perfgate.json"),
        (make_pipe, "page.json"),
        (change("perfgate.json", format=3), "perfgate.json"),
        (change("page.json", shut_by=["another"]), "page.json"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_cannot_be_read_shuts_the_merged_gate_and_the_rest_is_shown(
    three: Project, shard: Shard, spoil: Callable[[Path], None], file: str
) -> None:
    assert (shard(1), shard(2)) == (0, 0)
    spoil(three.root / "gates" / "h200-2")
    seen = three.perfgate("merge", "gates", *OUTPUTS, columns=400)
    assert (seen.status, seen.err) == (1, "")
    merged = three.written("all.json")
    page = PageData.model_validate_json((three.root / "page.json").read_text("utf-8"))
    measured = [one.verdict.workload for one in merged.workloads]
    if file == "page.json":
        assert merged.shut_codes == ("merge-page-left-out",)
        assert measured == ["alpha", "gamma", "beta"]
        assert [one.baseline is None for one in page.workloads] == [False, False, True]
    else:
        refused = {"merge-document-unreadable", "merge-page-of-another-gate"}
        assert merged.shut_codes[0] in refused
        assert merged.shut_codes[1:] == ("merge-shards-missing",)
        assert measured == ["alpha", "gamma"]
    assert (merged.opens_gate, merged.exit_status) == (False, 1)
    assert f"gates/h200-2/{file}" in merged.shut_by[0]
    why = merged.shut_by
    assert page.shut_by == why
    assert all(sentence in seen.out for sentence in why)
    for name in ("all.html", "all.md", "all.xml"):
        assert "gates/h200" in (three.root / name).read_text("utf-8"), name


@pytest.mark.parametrize("columns", [40, 60, 100, 400])
def test_what_documents_show_gives_a_job_no_command(
    three: Project, shard: Shard, columns: int
) -> None:
    assert shard(1, of=1) == 0
    folder, evil = (
        three.root / "gates" / "h200-1",
        "::error file=a::evil ##[error]evil ::add-mask::evil",
    )
    held = json.loads((folder / "perfgate.json").read_text("utf-8"))
    sentences = [f"{'x' * length} ::stop-commands::evil {evil}" for length in range(15)]
    held |= {"label": evil, "shut_by": [evil, *sentences], "opens_gate": False, "exit_status": 1}
    held["workloads"][0]["verdict"] |= {"workload": evil, "outcome": "REGRESSED", "reason": evil}
    (folder / "perfgate.json").write_text(json.dumps(held), encoding="utf-8")
    (folder / "page.json").unlink()
    three.patch.setenv("GITHUB_ACTIONS", "true")
    seen = three.perfgate("merge", "gates", columns=columns)
    assert (seen.status, seen.err) == (1, "")
    assert seen.out.count("evil") >= 16
    assert not any(line.lstrip().startswith("::") for line in seen.out.splitlines())
    assert "##[" not in seen.out


def test_what_was_merged_is_not_merged_again(three: Project, shard: Shard) -> None:
    assert shard(1, of=1) == 0
    assert three.perfgate("merge", "gates", "--json=all.json").status == 0
    (three.root / "all.json").rename(three.root / "gates" / "perfgate.json")
    seen = three.perfgate("merge", "gates", "--json=all.json")
    assert (seen.status, seen.err) == (1, "")
    assert codes(three)[0] == "merge-of-merged"


@pytest.mark.behaviour
def test_what_is_made_of_gates_that_knew_no_secrets_holds_none(
    three: Project, shard: Shard
) -> None:
    token, password = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3", "Sw0rd-Fish-22"
    three.patch.setenv("DB_PASSWORD", password)
    assert [shard(1), shard(2)] == [0, 0]
    for file in (three.root / "gates").rglob("*.json"):
        found = json.loads(file.read_text())
        found |= {
            "shut_by": [f"no access with {token}, {password}"],
            "opens_gate": False,
            "exit_status": 1,
        }
        file.write_text(json.dumps(found))
    seen = three.perfgate("merge", "gates", *OUTPUTS)
    assert seen.status == 1
    texts = [seen.out, *((three.root / option.partition("=")[2]).read_text() for option in OUTPUTS)]
    for text in texts:
        plain = text.replace("\\", "").replace("\u200b", "")
        assert token not in plain
        assert password not in plain
    assert "no access with [hidden: secret], [hidden: DB_PASSWORD]" in texts[1]
