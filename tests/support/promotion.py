"""A project on a branch, in a real repository here and on a GitHub of this machine, and what its
gates have kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from support import records
from support.repository import Repository as Local
from support.rest import GitHub, zipped

from perfgate.model.baseline import Baseline, Commit, Result, code_digest
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.store import RESULT_FILE, Store, baseline_text, file_name

FILES: Mapping[str, str] = {
    "pyproject.toml": '[project]\nname = "loops"\nversion = "1"\n',
    ".gitignore": ".perfgate/\n",
    "workloads/mlp.py": "def mlp(steps): ...\n",
    "model.py": "LAYERS = 3\n",
}
CODE: Mapping[str, str] = {
    name: hashlib.sha256(FILES[name].encode()).hexdigest()
    for name in ("workloads/mlp.py", "model.py")
}
RUN_URL = "https://github.example/octo/loops/actions/runs"


def place(result: Result) -> str:
    """Where a gate keeps a result, in its artifact."""
    stamp = result.measured_at.strftime("%Y%m%dT%H%M%S.%fZ")
    folders = (file_name(result.machine.slug), file_name(result.workload.id), f"{stamp}-0a1b2c")
    return "/".join(("results", *folders, RESULT_FILE))


def member(result: Result) -> bytes:
    """What it keeps there."""
    return result.model_dump_json(indent=1).encode()


class Scene(Local):
    """A branch of octo/loops that is checked out, its head commit being the same on both sides."""

    def __init__(
        self, top: Path, hub: GitHub, *, branch: str = "faster", within: str = "."
    ) -> None:
        super().__init__(top, within=within)
        self.hub = hub
        self.branch = branch
        self.within = within
        self.head = ""
        hub.workflows |= {"perfgate.yml", "perfgate-bless.yml"}
        hub.permissions |= {"ada": "write", "eve": "read"}
        self.push(FILES)

    def push(self, files: Mapping[str, str]) -> str:
        """Commit files on both sides; return the SHA."""
        self.head = self.commit(files)
        tree = {path: (self.root / path).read_text(encoding="utf-8") for path in files}
        prefix = "" if self.within == "." else f"{self.within}/"
        self.hub.commit(
            {prefix + path: text for path, text in tree.items()}, branch=self.branch, sha=self.head
        )
        return self.head

    def bless(self, *baselines: Baseline) -> str:
        """Push baselines, as blessed before."""
        store = Store(self.root, "baselines")
        return self.push(
            {
                store.baselines.path(one.machine.slug, one.workload)
                .relative_to(self.root)
                .as_posix(): baseline_text(one)
                for one in baselines
            }
        )

    def baseline(self, *step_ms: float, name: str = "mlp", at: datetime = records.NOON) -> Baseline:
        """A baseline of the code that is there; of five runs unless given."""
        times = step_ms or (12.34, 12.31, 12.36, 12.33, 12.35)
        made = records.baseline([{Metric.STEP_MS: ms} for ms in times], name=name, at=at)
        return made.model_copy(update={"code": code_digest(CODE)})

    def result(
        self,
        *step_ms: float,
        name: str = "mlp",
        outcome: Outcome = Outcome.PASSED,
        at: datetime = records.NOON,
        commit: Commit | None = None,
        on: Machine | None = None,
        measured: Sequence[Run] | None = None,
        code: Mapping[str, str] = CODE,
        reason: str = "within budget",
    ) -> Result:
        """A result of the head commit; of five runs unless given."""
        made = records.result(
            of=records.workload(name),
            on=on,
            at=at,
            measured=records.runs(*step_ms, at=at) if measured is None else measured,
            code=code,
            judged=records.verdict(outcome, name=name, reason=reason),
        )
        return made.model_copy(update={"commit": commit or Commit(sha=self.head)})

    def gate(
        self,
        *results: Result,
        artifact: str = "kept-perfgate-h200-1",
        conclusion: str | None = "failure",
        status: str = "completed",
        created_at: datetime = records.NOON,
    ) -> int:
        """Add a gate of the head commit that has kept these results; return the run's id."""
        run = self.hub.run(
            head_sha=self.head,
            head_branch=self.branch,
            conclusion=conclusion,
            status=status,
            created_at=created_at,
        )
        if results:
            self.keep(run, *results, artifact=artifact)
        return run

    def keep(self, run: int, *results: Result, artifact: str = "kept-perfgate-h200-1") -> None:
        """Add an artifact of kept results to a run."""
        self.hub.artifact(
            run, artifact, zipped({place(result): member(result) for result in results})
        )

    def on_branch(self, name: str = "mlp", *, branch: str | None = None) -> Baseline | None:
        """A baseline as GitHub has it."""
        prefix = "" if self.within == "." else f"{self.within}/"
        path = f"{prefix}baselines/nvidia-h200/{file_name(name)}.json"
        content = self.hub.content(branch or self.branch).get(path)
        return (
            None
            if content is None
            else Store(self.root, "baselines").baselines.parse(content, Path(path))
        )
