"""A gate as commands to GitHub's runner, read again as the runner reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest
from support import gates, records
from support.gates import gate, judged, placed

from perfgate.model.document import GateDocument
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.render.annotations import LONGEST, gate_annotations

ROOT = PurePosixPath()


@dataclass(frozen=True)
class Command:
    """What the runner takes a line for."""

    name: str
    properties: dict[str, str]
    message: str


def read(line: str) -> Command:
    """Read a command as actions/runner does: `::name key=value,key=value::data`, then unescape."""
    matched = re.fullmatch(r"::([a-z-]+)(?: (.*?))?::(.*)", line, re.DOTALL)
    assert matched is not None, line
    given = dict(pair.split("=", 1) for pair in (matched[2] or "").split(",") if pair)

    def plain(text: str, *, of_property: bool) -> str:
        more = (("%3A", ":"), ("%2C", ",")) if of_property else ()
        for escaped, meant in (("%0D", "\r"), ("%0A", "\n"), *more, ("%25", "%")):
            text = text.replace(escaped, meant)
        return text

    return Command(
        name=matched[1],
        properties={key: plain(value, of_property=True) for key, value in given.items()},
        message=plain(matched[3], of_property=False),
    )


def annotated(document: GateDocument, *, prefix: PurePosixPath = ROOT) -> list[Command]:
    lines = gate_annotations(document, prefix=prefix)
    assert all(len(line.splitlines()) == 1 for line in lines)
    return [read(line) for line in lines]


def test_a_loss_is_an_error_at_the_workloads_line_with_where_and_what_next() -> None:
    verdict = records.verdict(
        Outcome.REGRESSED,
        reason="step_ms rose 3.4 %.",
        where={Metric.STEP_MS: "+0.4 ms under loss"},
        next_step="Bless it: perfgate bless mlp",
    )
    assert gate_annotations(gate("", placed(verdict)), prefix=ROOT) == (
        (
            "::error file=workloads/loops.py,line=7,title=mlp%3A REGRESSED::"
            "step_ms rose 3.4 %25.%0Astep_ms: +0.4 ms under loss%0ABless it: perfgate bless mlp"
        ),
    )


def test_a_project_within_its_repository_has_its_folder_before_its_files() -> None:
    (line,) = annotated(
        gate("", judged("mlp", Outcome.INVALID)), prefix=PurePosixPath("services/train")
    )
    assert line.properties["file"] == "services/train/workloads/loops.py"


@pytest.mark.parametrize("outcome", [one for one in Outcome if one not in gates.PASSING])
def test_every_other_outcome_is_an_error_where_it_shuts_the_gate_and_else_a_warning(
    outcome: Outcome,
) -> None:
    (shut,) = annotated(gate("", judged("mlp", outcome)))
    (open_,) = annotated(gate("", judged("mlp", outcome, opens_gate=True)))
    assert (shut.name, open_.name) == ("error", "warning")
    assert shut.properties["title"] == open_.properties["title"] == f"mlp: {outcome}"


def test_errors_come_before_warnings_and_the_worst_first() -> None:
    let = judged("let", Outcome.INCONCLUSIVE, opens_gate=True)
    lines = annotated(gate("", let, judged("e", Outcome.INVALID), judged("w", Outcome.REGRESSED)))
    assert [(line.name, line.properties["title"]) for line in lines] == [
        ("error", "w: REGRESSED"),
        ("error", "e: INVALID"),
        ("warning", "let: INCONCLUSIVE"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "/etc/passwd",
        "../../.github/workflows/x.yml",
        "a/../../b",
        "C:/x.py",
        "\\\\host\\x",
        "workloads\\x.py",
        "a\nb.py",
        "a\u202eb.py",
        "x" * 2000,
    ],
)
def test_a_file_elsewhere_or_with_an_unseen_name_is_not_named(source: str) -> None:
    document = gate("", judged("mlp", Outcome.REGRESSED, source=source))
    (line,) = annotated(document, prefix=PurePosixPath("services/train"))
    assert line.properties == {"title": "mlp: REGRESSED"}


HOSTILE = [
    "x\n::error file=/etc/passwd::gotcha",
    "x\r::add-mask::secret",
    "x\r\n::set-output name=a::b",
    "a,file=/etc/passwd,line=1",
    "a::stop-commands::token",
    "::endgroup::",
    "##[error]gotcha",
    "100%0A::error::%25",
    "%2C%3A%0D",
    "a:b,c=d",
    "\x1b[2J\u202e\u2028::error::\x85::error::\x0b::error::",
    "\x00",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_or_sentence_begins_a_command_or_a_property(text: str) -> None:
    verdict = records.verdict(
        Outcome.REGRESSED,
        name=text,
        reason=text,
        next_step=text,
        where={Metric.STEP_MS: text},
        metrics=(),
    )
    one = placed(verdict).model_copy(update={"source": f"workloads/{text}"})
    first, *more = annotated(gate("", one, shut_by=[text]))
    assert [line.name for line in (first, *more)] == ["error"] * len((first, *more))
    assert first.properties.keys() <= {"file", "line", "title"}
    assert first.properties.get("line", "7") == "7"
    assert first.properties["title"].endswith(": REGRESSED")
    assert len(first.properties["title"]) < 200
    assert len(first.message) <= LONGEST + 3
    assert [line.properties for line in more] == [{"title": "perfgate: gate shut"}]
    everything = "".join(gate_annotations(gate("", one, shut_by=[text]), prefix=ROOT))
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]", everything)
