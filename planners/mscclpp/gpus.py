"""The resources of a gpu: channels, remote buffers, semaphores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..common.reading import At

PAIRED = ("memory", "port")
_FIELDS = (
    "id", "input_chunks", "output_chunks", "scratch_chunks", "threadblocks", "channels",
    "remote_buffers", "semaphores",
)  # fmt: skip

_FIRST = "inputChunks"
"""A field of gpus in the first format of MSCCL++'s plans."""


@dataclass
class Gpu:
    """A gpu and what its thread blocks share.

    Attributes:
        number: Its id.
        peers: Per channel type the gpu at the other end of every channel.
        switches: The gpus of every switch channel.
        remotes: Gpu and buffer type of every remote buffer.
        semaphores: Initial values.
        blocks: Thread blocks, not read yet.
    """

    number: int
    peers: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in PAIRED})
    switches: list[tuple[int, ...]] = field(default_factory=list)
    remotes: list[tuple[int, str]] = field(default_factory=list)
    semaphores: list[int] = field(default_factory=list)
    blocks: list[At] = field(default_factory=list)

    def end(self, kind: str, channel: int) -> tuple[int, int]:
        """Return the other gpu of a channel, and which of the channels to it this one is.

        The executor joins the n-th channel of one gpu to another with the n-th one back.
        """
        peers = self.peers[kind]
        return peers[channel], peers[:channel].count(peers[channel])


def read_gpu(at: At, gpus: int) -> Gpu:
    """Read everything but the thread blocks.

    Raises:
        PlanError: It is malformed.
    """
    for name, value in at.items():
        if name == _FIRST:
            value.fail(
                "a plan in the first format of MSCCL++, which is not read",
                hint="make it again with an MSCCL++ whose plans have input_chunks",
            )
    found = at.fields(*_FIELDS)
    for name in ("id", "threadblocks", "channels"):
        if name not in found:
            at.fail(f"{name!r} is missing")
    gpu = Gpu(found["id"].integer(0, gpus - 1))
    for channel in found["channels"].each():
        _channel(channel, gpu, gpus)
    for remote in found["remote_buffers"].each() if "remote_buffers" in found else ():
        fields = remote.fields("rank", "type", "access_channel_types")
        if not {"rank", "type"} <= fields.keys():
            remote.fail("'rank' and 'type' are needed")
        gpu.remotes.append((fields["rank"].integer(0, gpus - 1), fields["type"].text(10)))
    for semaphore in found["semaphores"].each() if "semaphores" in found else ():
        fields = semaphore.fields("init_value")
        gpu.semaphores.append(fields["init_value"].integer(0, 2**31) if fields else 0)
    gpu.blocks = list(found["threadblocks"].each())
    return gpu


def _channel(at: At, gpu: Gpu, gpus: int) -> None:
    found = at.fields("channel_type", "connected_to", "buffer_type", "rank_groups", "buff")
    kind = found["channel_type"].text(20) if "channel_type" in found else ""
    if kind in PAIRED and "connected_to" in found:
        for peer in found["connected_to"].each():
            if peer.integer(0, gpus - 1) == gpu.number:
                peer.fail("the channel leads to its own gpu")
            gpu.peers[kind].append(peer.value)
    elif kind == "switch" and "rank_groups" in found:
        for group in found["rank_groups"].each():
            fields = group.fields("size", "ranks")
            if "ranks" not in fields:
                group.fail("'ranks' is missing")
            ranks = tuple(fields["ranks"].integers(0, gpus - 1))
            gpu.switches.append(ranks)
    else:
        at.fail("not a channel", hint="memory and port have connected_to, switch has rank_groups")
