"""The short way through texts with flat brackets says what the long one says, errors too."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from planguard import registry

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla.text import (  # noqa: E402
    Unbalanced,
    closing,
    depth_change,
    marks,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SIGNS = [*'ab=,,  (){}[]""\\-\n', "(a,b)", "{a}", "[]", '"(,"', "[{a},b]", "((a),{})"] * 2
SIGNS += ["a", ",", "b "] * 20
OPEN, CLOSE = "([{", ")]}"


def long_split(text: str) -> list[str]:
    """Split mark by mark."""
    found = [*marks(text)]
    if found and found[-1][2] + (found[-1][1] in OPEN):
        raise Unbalanced("a bracket is never closed")
    cuts = [-1, *(at for at, mark, depth in found if mark == "," and not depth), len(text)]
    parts = [text[a + 1 : b].strip() for a, b in pairwise(cuts)]
    return parts if len(parts) > 1 or parts[0] else []


def long_closing(text: str, start: int) -> int:
    """Look for the bracket that closes one, mark by mark."""
    for at, mark, depth in marks(text, start):
        if not depth and mark in CLOSE:
            return at
    raise Unbalanced(f"{text[start : start + 1]!r} is never closed")


def answer(ask: Callable[..., Any], *given: Any) -> Any:
    """Return what is answered, or what is refused."""
    try:
        return ask(*given)
    except Unbalanced as error:
        return f"refused: {error}"


def test_flat_texts_are_read_as_all_others():
    """Random texts of brackets, strings, escapes and commas, most of them wrong."""
    rng = random.Random(21)
    kinds = {"flat": 0, "deep": 0, "refused": 0}
    for _ in range(30_000):
        text = "".join(rng.choices(SIGNS, k=rng.randrange(14)))
        expected = answer(long_split, text)
        assert answer(split, text) == expected, text
        for at, sign in enumerate(text):
            if sign in OPEN:
                assert answer(closing, text, at) == answer(long_closing, text, at), (text, at)
        if isinstance(expected, str):
            kinds["refused"] += 1
            continue
        assert depth_change(text) == 0
        is_deep = any(mark in OPEN and depth for _, mark, depth in marks(text))
        kinds["deep" if is_deep else "flat"] += 1
    assert min(kinds.values()) > 100


def test_an_instruction_of_a_compiler_is_split():
    """Attributes with braces, strings that look like brackets, and a comma behind the last."""
    text = 'replica_groups=[2,4]<=[8], metadata={op_name="f(\\"{,"}, to_apply=%add,'
    whole = ["replica_groups=[2,4]<=[8]", 'metadata={op_name="f(\\"{,"}', "to_apply=%add", ""]
    assert split(text) == whole
    assert depth_change('%f (x: "))") -> {') == 1
    assert closing("(a{b}(c))d", 0) == 8
