"""Rules of other checkers, written down from their papers and sources, on flat plans.

`dl2`: the published algorithm of dl² (FSE Companion '25, sections 3.3 and 3.4): follow the run as
far as it goes, draw an edge between processes for every unmatched communication, and look for a
cycle with networkx. `pairwise`: XLA's rule that two collectives in flight must not share more than
one device. `same_order`: the sequences of collectives of each group are equal on all members, and
each pair of ranks sends as often as it receives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

SENDS, RECEIVES = {"send", "isend"}, {"recv", "irecv"}
PAIR = SENDS | RECEIVES
COLLECTIVES = {
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "broadcast", "reduce", "gather", "scatter", "all_to_all", "all_to_all_single", "barrier",
    "coalesced",
}  # fmt: skip


class NotApplicable(Exception):  # noqa: N818  # says what happened
    """The rule has nothing to say about plans of this kind."""


def programs(flat: dict) -> dict[int, list[dict]]:
    """Give each rank's actions; a block of open order as it is written, of a branch the first."""
    return {int(rank): list(_flat(body["actions"])) for rank, body in flat["ranks"].items()}


def _flat(actions):
    for action in actions:
        if action["op"] == "unordered":
            for item in action["body"]:
                yield from _flat(item if isinstance(item, list) else [item])
        elif action["op"] == "choice":
            yield from _flat(action["branches"][0])
        elif action["op"] == "threads":
            raise NotApplicable("host threads")
        else:
            yield action


def members(flat: dict, group: str) -> list[int]:
    """Give the ranks of a group."""
    return list(range(flat["world_size"])) if group == "world" else flat["groups"][group]["ranks"]


# -- dl2 --


class Run:
    """The trace of a job, as far as it goes: who is matched, and where every process stands."""

    def __init__(self, flat: dict) -> None:
        self.flat, self.programs = flat, programs(flat)
        self.at = dict.fromkeys(self.programs, 0)
        self.posted: dict[object, list] = defaultdict(list)
        self.handles: dict[tuple[int, object], list] = {}
        self.counts: Counter = Counter()

    def issue(self, rank: int, action: dict) -> list[tuple]:
        """Post an action once; give the communications that it is, as (key, who has to come)."""
        parts = action["ops"] if action["op"] == "batch" else [action]
        found = []
        for part in parts:
            if part["op"] in PAIR:
                if "any" in {part["peer"], part.get("tag", 0)}:
                    raise NotApplicable("a wildcard")
                ends = (rank, part["peer"]) if part["op"] in SENDS else (part["peer"], rank)
                channel = ("pair", *ends, part.get("group", "world"), part.get("tag", 0))
                who = {*ends}
            else:
                group = part.get("group", "world")
                channel, who = ("round", group), set(members(self.flat, group))
            self.counts[rank, channel] += 1
            key = (*channel, self.counts[rank, channel])
            if channel[0] == "round":
                key = (*key, part["op"])  # another kind is another communication
            self.posted[key].append(rank)
            found.append((key, who))
        return found

    def is_matched(self, communications: list[tuple]) -> bool:
        return all(set(self.posted[key]) >= who for key, who in communications)

    def follow(self) -> dict[int, list[tuple]]:
        """Let all go as far as they can; give what each process that stands waits for."""
        waits: dict[int, list[tuple]] = {}
        moved = True
        while moved:
            moved = False
            for rank, program in self.programs.items():
                while self.at[rank] < len(program):
                    action = program[self.at[rank]]
                    if rank not in waits:
                        waits[rank] = self._needs(rank, action)
                    if not self.is_matched(waits[rank]):
                        break
                    del waits[rank]
                    self.at[rank] += 1
                    moved = True
                    if action["op"] == "exit":
                        self.at[rank] = len(program)
        return waits

    def _needs(self, rank: int, action: dict) -> list[tuple]:
        op = action["op"]
        if op == "wait":
            works = action["work"] if isinstance(action["work"], list) else [action["work"]]
            return [one for work in works for one in self.handles.pop((rank, work), [])]
        if op not in PAIR | COLLECTIVES | {"batch"}:
            return []
        communications = self.issue(rank, action)
        if op in {"isend", "irecv"} or action.get("async") or (op == "batch" and "work" in action):
            self.handles[rank, action.get("work")] = communications
            return []
        return communications


def dl2(flat: dict) -> bool:
    """Tell whether the wait-for graph of the processes has a cycle, or a round can be missed."""
    import networkx as nx

    run = Run(flat)
    graph = nx.DiGraph()
    for rank, communications in run.follow().items():
        for key, who in communications:
            absent = who - set(run.posted[key])
            graph.add_edges_from((rank, other) for other in absent)
    try:
        nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return _reorders(flat)
    return True


def _reorders(flat: dict) -> bool:
    """Tell whether actions of one group may be issued in another order (section 3.5)."""
    for body in flat["ranks"].values():
        for action in body["actions"]:
            if action["op"] != "unordered":
                continue
            groups = Counter()
            for item in action["body"]:
                inside = list(_flat(item if isinstance(item, list) else [item]))
                if not any("after" in one for one in inside):
                    groups.update(
                        {one.get("group", "world") for one in inside if one["op"] in COLLECTIVES}
                    )
            if any(count > 1 for count in groups.values()):
                return True
    return False


# -- XLA --


def pairwise(flat: dict) -> bool:
    """Tell whether some rank has two collectives in flight that share more than one device."""
    asked = False
    for rank, program in programs(flat).items():
        flying: dict[object, set[int]] = {}
        for action in program:
            if action["op"] == "wait":
                works = action["work"] if isinstance(action["work"], list) else [action["work"]]
                for work in works:
                    flying = {key: who for key, who in flying.items() if key[0] != work}
            elif action["op"] in COLLECTIVES:
                own = set(members(flat, action.get("group", "world")))
                for name, other in flying.items():
                    asked = True
                    # The rule lets collectives of one communicator queue behind each other.
                    if name[1] != action.get("group") and len(own & other) > 1:
                        return True
                if action.get("async"):
                    flying[action.get("work"), action.get("group")] = own
        del rank
    if not asked:
        raise NotApplicable("never two collectives in flight")
    return False


# -- equal orders --


def same_order(flat: dict) -> bool:
    """Tell whether members of a group differ in their collectives, or a pair in its messages."""
    sequences: dict[str, list[list[tuple]]] = defaultdict(list)
    sent: Counter = Counter()
    received: Counter = Counter()
    for rank, program in programs(flat).items():
        own: dict[str, list[tuple]] = defaultdict(list)
        for action in program:
            for part in action["ops"] if action["op"] == "batch" else [action]:
                if part["op"] in SENDS:
                    sent[rank, part["peer"], part.get("group", "world")] += 1
                elif part["op"] in RECEIVES:
                    received[part["peer"], rank, part.get("group", "world")] += 1
                elif part["op"] in COLLECTIVES:
                    shape = (part["op"], part.get("count"), part.get("bytes"), part.get("dtype"))
                    own[part.get("group", "world")].append((*shape, part.get("root")))
        for group in ["world", *flat.get("groups", {})]:
            if rank in members(flat, group):
                sequences[group].append(own[group])
    if sent != received:
        return True
    return any(
        one != other for found in sequences.values() for one, other in combinations(found, 2)
    )
