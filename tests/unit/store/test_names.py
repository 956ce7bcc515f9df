"""Names of workloads as names of files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.store.disk import file_name, near_names, workload_of


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("mlp", "mlp"),
        ("mlp[4-64,pinned=True]", "mlp[4-64,pinned=True]"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        (".hidden", "%2Ehidden"),
        ("..", "%2E."),
        ("a b\n\x1b", "a%20b%0A%1B"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("a~b", "a%7Eb"),
        ("\udcff", "%ED%B3%BF"),
    ],
)
def test_file_names_are_safe_and_can_be_undone(name: str, encoded: str) -> None:
    assert file_name(name) == encoded
    assert workload_of(encoded) == name


@given(st.text(st.characters(), min_size=1, max_size=30))
def test_any_name_is_one_safe_path_part(name: str) -> None:
    encoded = file_name(name)
    assert "/" not in encoded
    assert not encoded.startswith(".")
    assert encoded.isascii()
    assert encoded.isprintable()
    assert len(encoded) <= 200
    assert workload_of(encoded) in (name, None)


def test_a_name_that_nobody_encodes_so_is_taken_as_it_is() -> None:
    assert workload_of("%FF") == "%FF"


@pytest.mark.parametrize(
    ("name", "near"),
    [("lab", ["lab[cpu]", "lab[gpu]"]), ("mpl", ["mlp"]), ("other", [])],
)
def test_a_misspelt_id_is_near_those_of_its_parameters_or_those_like_it(
    name: str, near: list[str]
) -> None:
    assert near_names(name, ["lab[cpu]", "lab[gpu]", "mlp"]) == near
    assert near_names("lab", [f"lab[{one}]" for one in range(9)]) == ["lab[0]", "lab[1]", "lab[2]"]


def test_long_name_ends_in_a_hash() -> None:
    names = ["x" * 201, "x" * 202, "x" * 10_000, "é" * 500]
    encoded = [file_name(name) for name in names]
    assert len({*encoded}) == 4
    assert all(len(name) <= 200 and workload_of(name) is None for name in encoded)
    assert encoded[0][:183] == "x" * 183
    assert encoded[0][183] == "~"
    assert file_name("x" * 200) == "x" * 200


def test_long_name_is_not_cut_within_an_escape() -> None:
    assert "%" not in file_name("x" * 182 + "é" * 50)[182:]
