"""The HTML page of a gate: one file that asks the network for nothing; returns text, writes no
file."""

from perfgate.render.html.page import page_html

__all__ = ["page_html"]
