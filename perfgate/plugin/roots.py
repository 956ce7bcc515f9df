"""Which project a gate is of: refuses where pytest has found another than is meant."""

from __future__ import annotations

import pytest

from perfgate.model.pyproject import load_settings, project_around, project_within
from perfgate.plugin.choice import Choice
from perfgate.plugin.refusals import usage_error


def refuse_other_root(config: pytest.Config, choice: Choice) -> None:
    """Refuse a root that is not the project's, unless somebody typed it.

    Raises:
        pytest.UsageError: names both.
    """
    if config.getoption("rootdir") or config.getoption("inifilename"):
        return
    start, root = config.invocation_params.dir, config.rootpath
    around = project_around(root)
    if around is not None:
        workloads = (around / load_settings(around, {}).workloads).resolve()
        if not choice.files or any(file.is_relative_to(workloads) for file in choice.files):
            raise usage_error("root-within-project", root=str(root), project=str(around))
    for place in (start, *choice.files):
        if (within := project_within(root, place)) is not None:
            raise usage_error("root-around-project", root=str(root), project=str(within))
    if root not in (start, *start.parents) and not choice.files:
        raise usage_error("root-misled", root=str(root), start=str(start))
