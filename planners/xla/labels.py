"""Which data a communication is about, in words that all members of its group use.

Within one program that is the name of the instruction. Programs that were compiled apart number
their instructions apart, so across programs it is the channel, where channels tell instructions
apart, else the name that the framework gave; and only what all members use equally often.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from .steps import SENDING, Choice, Collective, Loop, Message, Sending, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .steps import Origin

Key = tuple[str, tuple[int, ...]]
Naming = Callable[["Origin"], str]


def leaves(steps: Sequence[Step]) -> Iterator[Sending]:
    """Yield the communications of steps, those in loops and branches too."""
    for step in steps:
        kind = step.__class__
        if kind in SENDING:
            yield step  # type: ignore[misc]
        elif isinstance(step, Loop):
            yield from leaves(step.body)
        elif isinstance(step, Choice):
            for branch in step.branches:
                yield from leaves(branch)


def key_of(step: Sending) -> Key:
    """Return the communicator of a step."""
    kind = step.__class__
    if kind is Collective:
        return "", step.group  # type: ignore[union-attr]
    if kind is Message:
        return "sendrecv" + step.pipeline, step.domain  # type: ignore[union-attr]
    return "p2p", step.domain  # type: ignore[union-attr]


class Labels:
    """The labels of all programs together.

    Args:
        sends: The communications of each rank, those in loops and branches too (``leaves``).
    """

    def __init__(self, sends: Mapping[int, Sequence[Sending]]) -> None:
        self._counts: dict[Key, dict[int, list[Origin]]] = defaultdict(lambda: defaultdict(list))
        for rank, steps in sends.items():
            mine: dict[Key, list[Origin]] = defaultdict(list)
            for step in steps:
                mine[key_of(step)].append(step.origin)
            for key, origins in mine.items():
                self._counts[key][rank] = origins
        self._apart = self._channels_tell_apart()
        self._chosen: dict[Key, dict[str, bool] | None] = {}
        self._naming: dict[Key, Naming] = {}
        self.missing = 0

    @property
    def keys(self) -> Iterable[Key]:
        """The communicators that the programs use."""
        return self._counts.keys()

    def _channels_tell_apart(self) -> bool:
        names: dict[tuple[int, str], set[str]] = defaultdict(set)
        for ranks in self._counts.values():
            for origins in ranks.values():
                if not all(origin.channel for origin in origins):
                    return False
                for origin in origins:
                    names[origin.program, origin.channel].add(origin.name)
        return all(len(found) == 1 for found in names.values())

    def label(self, origin: Origin, key: Key) -> str | None:
        """Return the label of a step of a communicator; None where its group shares no identity."""
        naming = self._naming.get(key)
        if naming is None:
            naming = self._choose(key)
        allowed = self._chosen[key]
        # Most origins are named by what this asks of them, so it is asked here.
        text = naming(origin) if origin.round or naming is not _by_name else origin.name
        if not text or (allowed is not None and not allowed.get(text, False)):
            self.missing += 1
            return None
        return text

    def _choose(self, key: Key) -> Naming:
        ranks = self._counts[key]
        programs = {origin.program for origins in ranks.values() for origin in origins}
        if len(programs) <= 1:
            self._naming[key], self._chosen[key] = _by_name, None
            return _by_name
        candidates: list[Naming] = [_by_channel] if self._apart else []
        candidates += [_by_op_name, _by_name]
        shared = [(naming, self._shared(ranks, naming)) for naming in candidates]
        naming, allowed = max(shared, key=lambda pair: sum(pair[1].values()))
        self._naming[key], self._chosen[key] = naming, allowed
        return naming

    @staticmethod
    def _shared(ranks: Mapping[int, Sequence[Origin]], naming: Naming) -> dict[str, bool]:
        """Return for every name whether all ranks use it equally often."""
        counts = [Counter(map(naming, origins)) for origins in ranks.values()]
        names = {name for count in counts for name in count if name}
        return {name: len({count[name] for count in counts}) == 1 for name in names}


def _by_name(origin: Origin) -> str:
    return origin.text


def _by_channel(origin: Origin) -> str:
    return f"channel {origin.channel}{origin.round}"


def _by_op_name(origin: Origin) -> str:
    return origin.op_name + origin.round if origin.op_name else ""
