"""The JSON document of one gate."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument, declared_at
from perfgate.model.document_text import SCHEMA_FILE, document_text, read_document
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload


def document() -> GateDocument:
    lame = records.run(absent={Metric.KERNEL_MS: "no kernels"}, throttled=["thermal slowdown"])
    return GateDocument(
        perfgate="0.1.0",
        started_at=records.NOON,
        ended_at=records.NOON + timedelta(minutes=3),
        opens_gate=False,
        exit_status=1,
        machine=records.machine(),
        commit=Commit(sha="1a2b3c4d" * 5, branch="main"),
        label="h200 1/2",
        settings=Settings(),
        workloads=(
            DocumentWorkload(
                verdict=records.verdict(Outcome.INVALID),
                opens_gate=False,
                runs=(DocumentRun.of(records.run()), DocumentRun.of(lame)),
                baseline="baselines/nvidia-h200/mlp.json",
                files=".perfgate/results/x",
                source="workloads/mlp.py",
                line=7,
            ),
        ),
    )


def test_document_is_read_again() -> None:
    assert read_document(document_text(document())) == document()


def test_document_is_plain_json(snapshot: SnapshotAssertion) -> None:
    text = document_text(document())
    json.loads(text)
    assert text == snapshot


def declared(source: str, *, line: int | None, command: tuple[str, ...] | None = None) -> Workload:
    return Workload(id="mlp", source=source, line=line, command=command, steps=3, warmup=0)


def test_lines_are_counted_from_1_and_a_command_stands_in_the_first() -> None:
    assert declared_at(declared("workloads/mlp.py", line=0)) == ("workloads/mlp.py", 1)
    assert declared_at(declared("workloads/mlp.py", line=None)) == ("workloads/mlp.py", None)
    assert declared_at(declared("workloads/mlp.yaml", line=None, command=("true",))) == (
        "workloads/mlp.yaml",
        1,
    )


@pytest.mark.parametrize(
    "source", ["/elsewhere/mlp.py", "../mlp.py", "workloads/../../mlp.py", "C:/mlp.py"]
)
def test_a_file_outside_the_project_is_not_reported(source: str) -> None:
    assert declared_at(declared(source, line=3)) == (None, None)


@pytest.mark.parametrize("change", [{"format": 3}, {"novelty": 1}])
def test_other_formats_are_refused(change: dict[str, int]) -> None:
    content = json.loads(document_text(document())) | change
    with pytest.raises(ValidationError):
        read_document(json.dumps(content))


def test_hostile_names_survive_unchanged() -> None:
    name = "[red]\x1b[2J\n\u202e" + "y" * 10_000
    workload = DocumentWorkload(verdict=records.verdict(name=name), opens_gate=True)
    found = document_text(document().model_copy(update={"workloads": (workload,)}))
    assert "\x1b" not in found
    assert read_document(found).workloads[0].verdict.workload == name


# The published schema


def published() -> dict[str, Any]:
    held: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return held


def fields(schema: dict[str, Any]) -> dict[str, set[str]]:
    """What each record holds, and what each choice offers; how pydantic words the rest differs by
    its version."""
    records_of = {"": schema, **schema["$defs"]}
    return {name: set(of.get("properties", of.get("enum", ()))) for name, of in records_of.items()}


def test_the_published_schema_is_that_of_the_records() -> None:
    again = (
        "The document has changed. Bring its schema up to date (GateDocument.model_json_schema), "
        "and say in the changelog what has changed."
    )
    made = GateDocument.model_json_schema(mode="serialization")
    assert fields(published()) == fields(made), again


def test_documents_are_valid_by_it_and_others_are_not() -> None:
    validator = jsonschema.Draft202012Validator(published())
    content = json.loads(document_text(document()))
    validator.validate(content)
    for change in ({"format": 3}, {"novelty": 1}, {"opens_gate": "yes"}, {"exit_status": -1}):
        assert not validator.is_valid({**content, **change}), change
    del content["workloads"][0]["verdict"]["outcome"]
    assert not validator.is_valid(content)
