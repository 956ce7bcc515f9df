"""Which environment variables may change how fast a workload is, and how two sets of them
differ.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from typing import Final

from perfgate.model.secrets import looks_secret

_TUNES: Final = re.compile(
    r"(?:NCCL|CUDA|CUBLAS|CUBLASLT|CUDNN|PYTORCH|OMP|GOMP|KMP|MKL|OPENBLAS|TRITON)_\w+|TORCH\w*_\w+|NVIDIA_TF32_OVERRIDE"
)
_OF_PLACE: Final = re.compile(
    r"CUDA_VISIBLE_DEVICES|CUDA_MPS_\w*|\w*_INJECTION\d*_PATH|TORCHELASTIC_\w+|NCCL_(?:COMM_ID|HOSTID)|CUDA_PKG\w*"
    r"|\w+_(?:HOME|PATH|ROOT|DIR|DIRECTORY|FOLDER|CACHE)"
)
"""Of them those that say which machine, folder or run it is."""


def tuning(env: Mapping[str, str], *, places: Iterable[str] = ()) -> dict[str, str]:
    """The variables of an environment that may change how fast what it is given to is.

    Left out is what differs from run to run or from machine to machine without that: GPUs chosen,
    folders, ids, paths under temporary folders and under `places`. Never a secret.
    """
    temporary = [tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]
    temporary += [env[name] for name in ("TMPDIR", "TEMP", "RUNNER_TEMP") if env.get(name)]
    below = tuple(f"{one.rstrip('/')}/" for one in (*temporary, *places) if one.strip("/"))
    return {
        name: value
        for name, value in sorted(env.items())
        if _TUNES.fullmatch(name)
        and not _OF_PLACE.fullmatch(name)
        and not looks_secret(name, value)
        and not any(one in value for one in below)
    }


def differing(
    then: Iterable[Mapping[str, str] | None], now: Mapping[str, str] | None
) -> str | None:
    """Name the variables that were set in another way each time before; None where none was, or
    that is not known.

    The newest of `then` comes last.
    """
    known = [one for one in then if one is not None]
    if now is None or not known:
        return None
    differing = [
        f"{name} was {_set(known[-1].get(name))}, is {_set(now.get(name))}"
        for name in sorted({*now, *known[-1]})
        if all(one.get(name) != now.get(name) for one in known)
    ]
    return (
        f"Environment variables are not those of the baseline: {'; '.join(differing)}"
        if differing
        else None
    )


def _set(value: str | None) -> str:
    return "not set" if value is None else repr(value)
