"""Exact rules of fused buffers: when do all orders of readiness give one sequence of flushes?

Elements are numbered 0..n-1 in an order that readiness admits, so a smaller number is never behind
a larger one; ``below[e]`` is the bit mask of the elements that are always ready before ``e``. Every
rule answers with two admissible orders that lead to different flushes, or with None, which means
there is only one (docs/explanation/fused-buffers.md has the arguments).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Order = tuple[int, ...]
Buckets = tuple[tuple[int, ...], ...]


def pack(order: Iterable[int], sizes: Sequence[int], cap: int) -> Buckets:
    """Fill one buffer in the given order and flush it before it would overflow.

    Args:
        order: Elements as they arrive.
        sizes: Bytes of every element.
        cap: Capacity, bytes; an element beyond it travels alone.
    """
    buckets: list[tuple[int, ...]] = []
    held: list[int] = []
    room = cap
    for element in order:
        if held and sizes[element] > room:
            buckets.append(tuple(held))
            held, room = [], cap
        held.append(element)
        room -= sizes[element]
    return (*buckets, tuple(held)) if held else tuple(buckets)


def fill_conflict(
    below: Sequence[int], sizes: Sequence[int], cap: int
) -> tuple[Order, Order] | None:
    """Return two orders of readiness that fill a buffer differently, or None.

    One packing iff (a) two elements of different buckets are always ordered and (b) no element
    that may come first in a bucket fits into the bucket before it.
    """
    reference = tuple(range(len(below)))
    buckets = pack(reference, sizes, cap)
    for bucket, following in pairwise(buckets):
        clash = _unordered_pair(below, bucket, following)
        if clash is not None:
            return _differing(below, sizes, cap, *clash)
        room = cap - sum(sizes[element] for element in bucket)
        inside = _mask(following)
        for element in following:
            if not below[element] & inside and sizes[element] <= room:
                head = reference[: following[0]]
                return reference, (*head, element, *_without(reference[following[0] :], element))
    return None


def launch_conflict(below: Sequence[int], buckets: Buckets) -> tuple[Order, Order] | None:
    """Return two orders of readiness that complete fixed buckets in different order, or None.

    One bucket always precedes another iff each of its elements is below some element of the other.
    That is transitive, so neighbors in one order of completion stand for all pairs.
    """
    chain = sorted(buckets, key=max)
    for bucket, following in pairwise(chain):
        needed = _mask(following)
        for element in following:
            needed |= below[element]
        if _mask(bucket) & ~needed:
            every = range(len(below))
            first = tuple(e for e in every if needed >> e & 1)
            return tuple(every), (*first, *(e for e in every if not needed >> e & 1))
    return None


def launched(order: Sequence[int], buckets: Buckets) -> Buckets:
    """Return fixed buckets in the order in which they are complete."""
    place = {element: at for at, element in enumerate(order)}
    return tuple(sorted(buckets, key=lambda bucket: max(place[e] for e in bucket)))


def smallest_safe_cap(
    total: int, check: Callable[[int], int | None], steps: int = 4096
) -> int | None:
    """Return the least capacity from which on every capacity is safe, or None.

    Args:
        total: Bytes of all elements; every capacity from here on gives the same buckets.
        check: Says of a capacity that it is unsafe (None), or safe together with all capacities
            down to the returned one, which is at most the given one (0: down to any).
        steps: Most capacities that are checked; the answer is then an upper bound.
    """
    cap, least = total, None
    for _ in range(steps):
        floor = check(cap)
        if floor is None:
            return least
        least = max(floor, 1)
        if floor <= 1:
            return least
        cap = floor - 1
    return least


def same_buckets_down_to(buckets: Buckets, sizes: Sequence[int]) -> int:
    """Return the least capacity that gives the same buckets: the largest one that is shared."""
    return max((sum(sizes[e] for e in bucket) for bucket in buckets if len(bucket) > 1), default=0)


def _mask(elements: Iterable[int]) -> int:
    mask = 0
    for element in elements:
        mask |= 1 << element
    return mask


def _without(elements: Iterable[int], left_out: int) -> Order:
    return tuple(element for element in elements if element != left_out)


def _unordered_pair(
    below: Sequence[int], bucket: tuple[int, ...], following: tuple[int, ...]
) -> tuple[int, int] | None:
    """Return an element of each that may come in either order; transitive along the buckets."""
    mask = _mask(bucket)
    for element in following:
        free = mask & ~below[element]
        if free:
            return free.bit_length() - 1, element
    return None


def _differing(
    below: Sequence[int], sizes: Sequence[int], cap: int, one: int, other: int
) -> tuple[Order, Order]:
    """Two of three orders differ: the reference, and both with the free pair side by side.

    If the pair side by side falls into one bucket, that differs from the reference; if it falls
    into two, the swapped order puts another element last into the first of them.
    """
    every = tuple(range(len(below)))
    needed = (below[one] | below[other]) & ~(1 << one | 1 << other)
    head = tuple(e for e in every if needed >> e & 1)
    tail = tuple(e for e in every if not needed >> e & 1 and e not in {one, other})
    first, second = (*head, one, other, *tail), (*head, other, one, *tail)
    usual = _sets(pack(every, sizes, cap))
    if _sets(pack(first, sizes, cap)) != usual:
        return every, first
    return every, second


def _sets(buckets: Buckets) -> list[frozenset[int]]:
    return [frozenset(bucket) for bucket in buckets]
