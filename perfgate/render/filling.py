"""Jinja2's environment, as every document is made by it: they differ in how text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(
    folder: str = "templates",
    *,
    escape: Callable[[Any], object] | None = None,
    markup: bool = False,
    names: Mapping[str, Any] | None = None,
    filters: Mapping[str, Callable[..., Any]] | None = None,
) -> Environment:
    """Return an environment in which what is missing is a fault.

    Args:
        folder: where the templates lie, in `perfgate/render`.
        escape: what becomes of all that is put in.
        markup: whether that is HTML or XML, and escaped as such as well.
        names: what every template knows.
        filters: what it may pass values through.
    """
    import jinja2  # noqa: PLC0415 - most gates write a terminal alone

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("perfgate.render", folder),
        finalize=escape,
        autoescape=markup,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(names or {})
    made.filters.update(filters or {})
    return made
