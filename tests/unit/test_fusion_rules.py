"""The rules of fused buffers against all linear extensions of random small posets."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from planguard.semantics.fusion import (
    fill_conflict,
    launch_conflict,
    launched,
    pack,
    same_buckets_down_to,
    smallest_safe_cap,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

POSETS = 3_000


def random_poset(rng: random.Random) -> list[int]:
    """Return ``below`` of a random poset of 1 to 6 elements, transitively closed."""
    below: list[int] = []
    chance = rng.choice([0.2, 0.5, 0.8, 0.95])
    for element in range(rng.randint(1, 6)):
        mask = 0
        for earlier in range(element):
            if rng.random() < chance:
                mask |= 1 << earlier | below[earlier]
        below.append(mask)
    return below


def extensions(below: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield every linear extension, straight from the definition."""

    def grow(order: tuple[int, ...], done: int) -> Iterator[tuple[int, ...]]:
        if len(order) == len(below):
            yield order
        for element, needs in enumerate(below):
            if not done >> element & 1 and not needs & ~done:
                yield from grow((*order, element), done | 1 << element)

    return grow((), 0)


def as_sets(buckets: tuple[tuple[int, ...], ...]) -> tuple[frozenset[int], ...]:
    """Return buckets without the order inside them."""
    return tuple(frozenset(bucket) for bucket in buckets)


def test_fill_rule_is_exact() -> None:
    """The rule for filled buffers equals enumeration, and its two orders really differ."""
    rng = random.Random(4)
    conflicts = 0
    for _ in range(POSETS):
        below = random_poset(rng)
        sizes = [rng.randint(0, 5) for _ in below]
        cap = rng.randint(1, 12)
        orders = list(extensions(below))
        packings = {as_sets(pack(order, sizes, cap)) for order in orders}
        found = fill_conflict(below, sizes, cap)
        assert (found is None) == (len(packings) == 1), (below, sizes, cap)
        if found is not None:
            conflicts += 1
            assert set(found) <= set(orders)
            assert len({as_sets(pack(order, sizes, cap)) for order in found}) == 2
    assert POSETS // 10 < conflicts < POSETS * 9 // 10


def test_launch_rule_is_exact() -> None:
    """The rule for fixed buckets launched when ready equals enumeration; its orders differ."""
    rng = random.Random(6)
    seen = set()
    for _ in range(POSETS):
        below = random_poset(rng)
        elements = list(range(len(below)))
        rng.shuffle(elements)
        buckets = pack(elements, [1] * len(below), rng.randint(1, 4))
        orders = list(extensions(below))
        sequences = {launched(order, buckets) for order in orders}
        found = launch_conflict(below, buckets)
        assert (found is None) == (len(sequences) == 1), (below, buckets)
        seen.add(found is None)
        if found is not None:
            assert set(found) <= set(orders)
            assert launched(found[0], buckets) != launched(found[1], buckets)
    assert seen == {True, False}


@pytest.mark.parametrize("membership", ["fill", "fixed"])
def test_smallest_safe_cap_is_exact(membership: str) -> None:
    """From the found capacity on every capacity is safe, and the one below it is not."""
    rng = random.Random(7)
    raised = 0
    for _ in range(600):
        below = random_poset(rng)
        sizes = [rng.randint(1, 5) for _ in below]
        declared = rng.sample(range(len(below)), len(below))
        order = range(len(below)) if membership == "fill" else declared

        def is_safe(cap: int) -> bool:
            if membership == "fill":
                return fill_conflict(below, sizes, cap) is None  # noqa: B023
            return launch_conflict(below, pack(order, sizes, cap)) is None  # noqa: B023

        def check(cap: int) -> int | None:
            buckets = pack(order, sizes, cap)  # noqa: B023
            return same_buckets_down_to(buckets, sizes) if is_safe(cap) else None  # noqa: B023

        least = smallest_safe_cap(sum(sizes), check)
        assert least is not None
        assert all(is_safe(cap) for cap in range(least, sum(sizes) + 3))
        assert least == 1 or not is_safe(least - 1)
        raised += least > 1
    assert raised > 100
