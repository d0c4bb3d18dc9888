"""One mistake each in the generated code of one rank: what a planner's bug would look like.

``record.py --mutations`` runs them really; ``recorded/mutation-<name>.json`` says how each ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

Edit = Callable[[str], str]


@dataclass(frozen=True)
class Mutation:
    """An edit of one rank's file.

    Attributes:
        sample: Folder of the plan.
        rank: Whose file.
        edit: From text to text.
    """

    sample: str
    rank: int
    edit: Edit

    def apply(self, folder: Path) -> None:
        """Edit the file of the rank below a folder."""
        path = next(folder.rglob(f"gencode{self.rank}.py"))
        before = path.read_text()
        after = self.edit(before)
        if before == after:
            raise ValueError(f"the mutation changes nothing in {path}")
        path.write_text(after)


def _lines(text: str, words: str) -> list[int]:
    """Return the lines of ``_train_step`` that hold some words."""
    lines = text.split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("def _train_step"))
    stop = next((at for at, line in enumerate(lines) if line.startswith("def _infer")), len(lines))
    return [at for at in range(start, stop) if words in lines[at]]


def swap(one: str, other: str, nth: int = 0) -> Edit:
    """Exchange the first line with some words and the next one with others."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        first = _lines(text, one)[nth]
        second = next(at for at in _lines(text, other) if at > first)
        lines[first], lines[second] = lines[second], lines[first]
        return "\n".join(lines)

    return edit


def drop(words: str, nth: int) -> Edit:
    """Leave a line out."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        del lines[_lines(text, words)[nth]]
        return "\n".join(lines)

    return edit


def duplicate(words: str, nth: int) -> Edit:
    """Write a line twice."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        at = _lines(text, words)[nth]
        lines.insert(at, lines[at])
        return "\n".join(lines)

    return edit


def replace(pattern: str, by: str, count: int = 1) -> Edit:
    """Replace a pattern, all over the file."""
    return lambda text: re.sub(pattern, by, text, count=count)


MUTATIONS: dict[str, Mutation] = {
    "swapped-reducers": Mutation("mlp-tp2dp2", 1, swap("model.reducer170", "model.reducer208")),
    "swapped-messages": Mutation(
        "mlp-pp4-1f1b", 1, swap("model.adapter108, *(linear_4_218", "glinear_4_126 = ")
    ),
    "swapped-groups": Mutation(
        "mlp-tp2dp2", 3,
        replace(
            r"( +self.init_group\(ranks=\[0, 2\]\)\n)( +self.init_group\(ranks=\[1, 3\]\)\n)",
            r"\2\1",
        ),
    ),
    "dropped-send": Mutation("mlp-pp4-gpipe", 2, drop("model.adapter64", 3)),
    "dropped-collective": Mutation(
        "mlp-tp2dp2", 0,
        replace(r"nnscaler\.[a-z.]*\.allreduce_allreduce\((\w+), ranks=\[0, 1\]\)", r"\1"),
    ),
    "duplicated-reducer": Mutation("mlp-dp4", 2, duplicate("model.reducer", 0)),
    "wrong-peer": Mutation("mlp-pp2tp2dp2", 0, replace("src=0, dst=2", "src=0, dst=3")),
    "wrong-root": Mutation("mlp-pp4-gpipe", 1, replace("src=3, ranks", "src=2, ranks")),
    "wrong-group": Mutation(
        "mlp-tp2dp2", 0, replace(r"idim=1, odim=0, ranks=\[0, 1\]", "idim=1, odim=0, ranks=[0, 2]")
    ),
    "smaller-receive": Mutation(
        "mlp-pp4-gpipe", 2,
        replace(r"move\(\(\), shape=\(4, 16\), dtype=torch.float32, src=1",
                "move((), shape=(4, 8), dtype=torch.float32, src=1"),
    ),
    "reducer-in-every-backward": Mutation(
        "mlp-pp2dp2-async-reducer", 1, replace("skip_reducer = True", "skip_reducer = False", 0)
    ),
    "unnamed-value": Mutation("mlp-pp4-1f1b", 3, drop("data_108 = next", 0)),
}  # fmt: skip
"""Name -> mutation."""
