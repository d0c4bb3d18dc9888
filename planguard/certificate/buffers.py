"""One fused buffer on one rank: what leaves together when a member becomes ready, by its policy.

Standard library only, no engine; docs/explanation/fused-buffers.md says what the fields mean.
"""

from __future__ import annotations

from planguard.certificate.agreement import Call, OutsideError, extent


class Buffer:
    """One fused buffer on one rank.

    Args:
        spec: What the plan says of it.
        mine: The members that the rank issues, by id.
        first: The members of the first rank of its group, by id, which broadcasts its layout.
    """

    def __init__(self, spec: Call, mine: dict[str, Call], first: dict[str, Call]) -> None:
        self.spec, self.mine = spec, mine
        self.agreed = spec.get("coordination", "none")
        self.fills = spec.get("membership", "fill") == "fill" and self.agreed == "none"
        self.is_ordered = spec.get("launch", "when-ready") == "ordered" or self.agreed != "none"
        self.rank_of = {name: at for at, name in enumerate(spec["members"])}
        layout = first if self.agreed == "rank0-broadcast" else mine
        here, count = [name for name in spec["members"] if name in layout], spec.get("buffers", 1)
        self.lists = [here[at::count] for at in range(count) if here[at::count]]
        self.size = {name: _bytes(call) for name, call in layout.items()}
        every = sum(self.size.values())
        self.cap = spec.get("cap_bytes", every)
        self.buckets = [[[name] for name in names] for names in self.lists]
        if self.agreed != "negotiated":
            self.buckets = [self._pack(names) for names in self.lists]
        self.last = [b[-1] for b in self.buckets] if spec.get("drain") == "ordered" else []

    def _pack(self, names: list[str]) -> list[list[str]]:
        buckets, held = list[list[str]](), 0
        for name in names:
            if not buckets or held + self.size[name] > self.cap:
                buckets.append([])
                held = 0
            buckets[-1].append(name)
            held += self.size[name]
        return buckets

    def inside(self, name: str, came: set[str], sent: set[str]) -> tuple[str, ...]:
        """Return what a filled buffer holds beside a member, in declared order."""
        mine = next(names for names in self.lists if name in names)
        return tuple(one for one in mine if one in came - sent)

    def due(self, name: str, came: set[str], sent: set[str]) -> list[tuple[str, ...]]:
        """Return what leaves when a member becomes ready.

        Args:
            name: The member.
            came: What was ready before, and the member.
            sent: What has left.
        """
        if self.fills:
            held = self.inside(name, came - {name}, sent)
            full = sum(self.size[one] for one in held) + self.size[name] > self.cap
            return [held] if held and full else []
        every = [bucket for buckets in self.buckets for bucket in buckets]
        out = list[tuple[str, ...]]()
        if self.is_ordered:
            for bucket in sorted(every, key=lambda bucket: self.rank_of[bucket[-1]]):
                if not came.issuperset(bucket):
                    break
                out += [] if bucket[0] in sent else [tuple(bucket)]
            return out
        for bucket in every:
            if bucket not in self.last and came.issuperset(bucket) and bucket[0] not in sent:
                out.append(tuple(bucket))
        if self.last and came.issuperset(self.mine):
            out += [tuple(bucket) for bucket in self.last]
        return out


def _bytes(call: Call) -> int:
    size = extent(call)[0]
    if size is None:
        raise OutsideError("a member of a fused buffer without a size")
    return size
