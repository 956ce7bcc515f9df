"""Which project a gate is of: refuses where pytest has found another than is meant."""

from __future__ import annotations

import os
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from perfgate.model.options import OPTIONS
from perfgate.model.pyproject import find_root, load_settings, project_around, project_within
from perfgate.plugin.choice import Choice
from perfgate.plugin.refusals import usage_error


def refuse_unusable_root(root: Path) -> None:
    """Refuse a project whose path no document can hold, or pytest reads as another in a run.

    Raises:
        pytest.UsageError: says what is wrong with the path.
    """
    path = str(root)
    try:
        path.encode()
    except UnicodeEncodeError:
        encoding = sys.getfilesystemencoding()
        raise usage_error("root-not-utf8", root=ascii(path), encoding=encoding) from None
    if (read := os.path.expandvars(path)) != path:
        raise usage_error("root-with-variable", root=path, read=read)


def refuse_other_root(config: pytest.Config, choice: Choice) -> None:
    """Refuse a root that is not the project's, unless somebody typed it.

    Raises:
        pytest.UsageError: names both.
    """
    if config.getoption("rootdir") or config.getoption("inifilename"):
        return
    start = config.invocation_params.dir
    files = [(start / word.partition("::")[0]).resolve() for word in choice.words]
    around = project_around(config.rootpath)
    if around is not None:
        workloads = (around / load_settings(around, {}).workloads).resolve()
        if not files or any(file.is_relative_to(workloads) for file in files):
            raise usage_error("root-within-project", root=str(config.rootpath), project=str(around))
    for place in (start, *files):
        within = project_within(config.rootpath, place)
        if within is not None:
            raise usage_error("root-around-project", root=str(config.rootpath), project=str(within))


def refuse_root_by_value(config: pytest.Config) -> None:
    """Refuse a project that pytest found by the value of an option.

    pytest looks for its root before it knows a plugin's options: in `--perfgate-json FILE` it takes
    a FILE that exists for a test file, and looks from there.

    Raises:
        pytest.UsageError: it did, and found another than the working directory's.
    """
    if config.getoption("rootdir") or config.getoption("inifilename"):
        return
    here, ours = config.invocation_params.dir, {option.option for option in OPTIONS}
    words = [
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *map(str, config.invocation_params.args),
    ]
    root = find_root(here)
    for option, value in pairwise(words):
        if option in ours and (here / value).exists() and config.rootpath != root:
            raise usage_error(
                "root-misled",
                option=option,
                value=value,
                found=str(config.rootpath),
                root=str(root),
            )
