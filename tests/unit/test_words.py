"""How numbers and names are written for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planguard.words import (
    NAME_LIMIT,
    clean,
    cut,
    listed,
    name_ranks,
    plural,
    rank_set,
    shown,
    size,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (4194304, "4.00 MiB"),
        (1048575, "1.00 MiB"),  # not 1024.00 KiB
        (3 << 40, "3.00 TiB"),
        ((1 << 63) - 1, "8192.00 PiB"),
    ],
)
def test_sizes_are_iec_with_two_decimals(count: int, text: str) -> None:
    """Bytes below one KiB stay bytes; above, two decimals and a unit that never reads 1024."""
    assert size(count) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([5], "rank 5"),
        ([6, 5], "ranks 5 and 6"),
        (range(4), "ranks [0-3]"),
        ([0, 1, 2, 3, 8, 9, 10, 11], "ranks [0-3,8-11]"),
        ([1, 1, 1], "rank 1"),
    ],
)
def test_ranks_in_a_sentence(ranks, text: str) -> None:
    """One and two ranks are named, more are a set."""
    assert name_ranks(ranks) == text


def test_long_rank_sets_are_cut() -> None:
    """A set of many runs keeps its first ones and its last."""
    text = rank_set(range(0, 200, 2))
    assert text.startswith("[0,2,4,")
    assert text.endswith(",...,198]")
    assert len(text) < 80


def test_lists_and_counts() -> None:
    """Lists end in `and`, counts have separators and plurals."""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert plural(80000, "action") == "80,000 actions"
    assert plural(1, "rank") == "1 rank"


@given(st.text())
def test_clean_text_obeys_nothing(text: str) -> None:
    """Cleaned text is printable, cleaning it again changes nothing, and ASCII stays ASCII."""
    once = clean(text)
    assert once.isprintable()
    assert clean(once) == once
    assert clean(text, ascii_only=True).isascii()
    assert "\x1b" not in once
    assert "\u202e" not in once


@given(st.text(max_size=200))
def test_shown_names_are_short_and_keep_both_ends(text: str) -> None:
    """A long name is cut in its middle to the limit."""
    name = shown(text)
    full = clean(text)
    assert len(name) <= NAME_LIMIT
    if len(full) > NAME_LIMIT:
        head, _, tail = name.partition("...")
        assert full.startswith(head)
        assert full.endswith(cut(full)[-len(tail) :] if tail else "")
    else:
        assert name == full
