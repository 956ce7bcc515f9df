"""Scripts that are held on a real GPU: each waits in torch's own first use of CUDA, whichever
thread comes to it first.

About half a minute on an H100.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from support.gpu import gate, needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

TRAIN = """\
import json, os, threading, time
from pathlib import Path

import nvtx, torch

# As a loader's thread that pins memory: the loop does not ask Python whether CUDA is there.
threading.Thread(target=torch.cuda.set_device, args=(0,)).start()
time.sleep(0.5)
data = torch.randn(2048, 2048, device="cuda")
began = time.monotonic()
for number in range(30):
    with nvtx.annotate(f"step {number}"):
        data = torch.tanh(data @ data)
        torch.cuda.synchronize()
Path("times").mkdir(exist_ok=True)
Path("times", str(os.getpid())).write_text(json.dumps([began, time.monotonic()]))
"""
YAML = """\
command: [python, train.py]
step: "step \\\\d+"
warmup: 10
steps: 20
capture: all
ahead: 3
"""


def test_scripts_use_the_gpu_one_after_another(tmp_path: Path) -> None:
    needs_a_gate()
    (tmp_path / "workloads").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.perfgate]\n")
    (tmp_path / "workloads" / "train.yaml").write_text(YAML)
    (tmp_path / "train.py").write_text(TRAIN)
    made = gate(tmp_path, "--perfgate-new=allow", "--perfgate-runs=3", timeout_s=300)
    assert made.status == 0, made.output
    (kept,) = (tmp_path / ".perfgate" / "results").rglob("result.json")
    assert {run["form"] for run in json.loads(kept.read_text())["runs"]} == {"early"}
    windows = sorted(json.loads(file.read_text()) for file in (tmp_path / "times").iterdir())
    assert len(windows) >= 3
    for before, after in pairwise(windows):
        assert before[1] < after[0]
