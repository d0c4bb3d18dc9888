"""Which tests of a program may depend on what calls at some lines return, and in which files.

A process holds more files than a program, such as every other test of a run, so what a call returns
is followed into those files alone that it may reach (``depends`` says how values go). An exception
may begin wherever a value is used that depends; whoever names such a function may catch it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.capture.names.depends import Program, Test, place_in_file
from planguard.plan.vocabulary import RECEIVES, ROOTED, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planguard.capture.names.depends import Scope

_WORD = re.compile(r"[^\W\d]\w*")
SIZE = "size"
"""Of the kinds of tests: how large a tensor is, which one of several it is, who is a peer."""
_PEERS = frozenset({"src", "dst", "root", "group_src", "group_dst", "peer"})
"""Names of arguments that say which rank a call is about."""
_TO_RANKS = SENDS | RECEIVES | ROOTED
"""Operations that are told a rank."""
_BEHIND_LISTS = frozenset({"gather", "scatter"})
"""Those of them that are told it behind two arguments, not behind one."""
_MAKING = frozenset(
    {
        "arange", "broadcast_to", "chunk", "empty", "expand", "eye", "full", "linspace", "narrow",
        "new_empty", "new_full", "new_ones", "new_zeros", "ones", "pad", "rand", "randint",
        "randn", "randperm", "repeat", "repeat_interleave", "reshape", "resize_", "split",
        "tensor_split", "tile", "unflatten", "unfold", "view", "zeros",
    }
)  # fmt: skip
"""Functions and methods of torch and numpy that are given sizes."""
_MOST_TEXT = 80
_DEFINED = re.compile(r"\b(?:def|class)\s+(\w+)")


def tests_on(
    sources: Mapping[str, str], places: Iterable[str], *, are_sizes: bool
) -> tuple[list[Test], dict[str, str]]:
    """Return the tests that may depend on what calls at some lines return, and where it may go.

    Args:
        sources: Text by file.
        places: Where those calls stand, ``file:line``.
        are_sizes: Sizes of tensors are tests, too: what is sent differs with them.

    Returns:
        The tests that may depend, and the files that were read with their texts.
    """
    program = follow(sources, places)
    found = [one for one in program.tests() if one.depends]
    return found + (program.sizes() if are_sizes else []), program.texts


def follow(sources: Mapping[str, str], places: Iterable[str]) -> Asked:
    """Follow what calls at some lines return into the files that it may reach.

    A file is read once something in those read before may reach it: it names a global, an
    attribute or a function that depends, or one in which an exception may begin that depends; or it
    defines what is called with a value that depends.

    Args:
        sources: Text by file.
        places: Where those calls stand, ``file:line``.
    """
    asked: dict[str, set[int]] = defaultdict(set)
    for place in places:
        file, _, line = place.rpartition(":")
        asked[file].add(int(line))
    read = {file: text for file, text in sources.items() if file in asked}
    left = {
        file: (set(_WORD.findall(text)), set(_DEFINED.findall(text)))
        for file, text in sources.items()
        if file not in read
    }
    while True:
        program = Asked(read, asked)
        program.follow()
        named, defined, is_any = program.reach()
        more = [f for f, (w, d) in left.items() if is_any or w & named or d & defined]
        if not more:
            return program
        for file in more:
            del left[file]
            read[file] = sources[file]


class Asked(Program):
    """Files in which the results of some calls depend, and nothing else."""

    def __init__(self, sources: Mapping[str, str], asked: Mapping[str, set[int]]) -> None:
        super().__init__(sources, asked)
        self.raising: set[str] = set()  # functions in which an exception may depend

    def follow(self) -> None:
        """Follow values, then exceptions, until nothing is new."""
        while True:
            super().follow()
            found = self._functions_that_raise()
            if found == self.raising:
                return
            self.raising = found

    def may_catch(self, node: ast.AST) -> bool:
        """Tell whether something in a ``try`` may raise by what depends."""
        inside = [one for part in getattr(node, "body", ()) for one in ast.walk(part)]
        return any(_named(one) in self.raising or self._is_one(one) for one in inside)

    def sizes(self) -> list[Test]:
        """Return the calls that make tensors, and the parts of them, whose size depends."""
        found = []
        for name, tree in self.files.items():
            for node in ast.walk(tree):
                if any(self._is_one(one) for one in _sizing(node)):
                    text = ast.unparse(node)[:_MOST_TEXT]
                    found.append(Test(name, *place_in_file(node), SIZE, text))
        return found

    def around(self, levels: int) -> set[str]:
        """Return the keys of the scopes that ask, or call one that does, or that they hand it to.

        Args:
            levels: How many calls may stand between who asks and who calls.
        """
        found = {self.scopes[node].key for node in self.asked}
        calls = [one for one in self.scopes if isinstance(one, ast.Call)]
        for _ in range(levels):
            names = {name.rpartition(":")[2] for name in found}
            found |= {self.scopes[one].key for one in calls if _named(one.func) in names}
        given = [one for one in calls if self.scopes[one].key in found]
        handed = [one for one in given if any(map(self.depends, one.args))]
        return found | {scope.key for one in handed for scope in self._called(one)}

    def is_question(self, node: ast.AST) -> bool:
        """Tell whether a call asks itself, and is not only given an answer on the same line."""
        inner = (one for one in ast.walk(node) if one is not node)
        return node in self.asked and not any(one in self.asked for one in inner)

    def _is_one(self, node: ast.AST) -> bool:
        return node in self.asked or (isinstance(node, ast.expr) and self.depends(node))

    def reach(self) -> tuple[set[str], set[str], bool]:
        """Return what reaches a file that names it, that defines it, and whether it reaches all."""
        named = {name for kind, _, name in self.facts if kind in "ga"}
        named |= {key.rpartition(":")[2] for kind, _, key in self.facts if kind == "r"}
        named |= self.raising
        # What the interpreter calls by itself is named by nobody.
        return named, self.called, any(_is_implicit(name) for name in named)

    def _functions_that_raise(self) -> set[str]:
        """Return the names of functions in which something depends, and of what may call them."""
        around = {scope: self._names_around(scope) for scope in set(self.scopes.values())}
        inner = {scope for node, scope in self.scopes.items() if self._is_one(node)}
        found = {name for scope in inner for name in around[scope]}
        mentions = {(name, scope) for one, scope in self.scopes.items() if (name := _named(one))}
        before = -1
        while len(found) > before:
            before = len(found)
            for name, scope in mentions:
                if name in found:
                    found |= around[scope]
        return found

    def _names_around(self, scope: Scope | None) -> set[str]:
        """Return the names of a function and those around it, and the class of a constructor."""
        names: set[str] = set()
        while scope is not None:
            if isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(scope.node.name)
                if scope.node.name == "__init__":
                    names |= self.owners.get(scope.node, set())
            scope = scope.around
        return names


def _sizing(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a node that say how large a tensor is, which part it is, or who sends."""
    if isinstance(node, ast.Call) and _named(node.func) in _MAKING:
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, ast.Call):
        # Of torch.distributed, those of objects among it: gather_object, broadcast_object_list.
        called = _named(node.func).removesuffix("_list").removesuffix("_object")
        at = 1 + (called in _BEHIND_LISTS) if called in _TO_RANKS else len(node.args)
        return [*node.args[at : at + 1], *(k.value for k in node.keywords if k.arg in _PEERS)]
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        slices = [part for part in parts if isinstance(part, ast.Slice)]
        bounds = [b for part in slices for b in (part.lower, part.upper, part.step) if b]
        is_read = isinstance(node.ctx, ast.Load)
        return [*bounds, *(part for part in parts if is_read and not isinstance(part, ast.Slice))]
    return []


def _named(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _is_implicit(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name != "__init__"
