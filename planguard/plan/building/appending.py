"""What every call of a ``ProgramBuilder`` goes through: checks, handles, blocks, lines."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, get_args

import msgspec

from planguard.errors import PlanError
from planguard.plan import nodes as n
from planguard.plan.building.blocks import Block, Handle, author, caller, frame_of, placed
from planguard.plan.compiling.operations import find, trouble_with
from planguard.plan.defects import nearest, refusal
from planguard.plan.dtypes import dtype_name
from planguard.plan.vocabulary import BLOCKING, HOLDS
from planguard.records import decoder_of
from planguard.words import encodable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.plan.building.blocks import Line

_CLASSES = n.OP_CLASSES
_RENAMED = {"async": "async_", "async_op": "async_"}
_TORCH = {"op": "reduce_op", "dst": "peer", "src_rank": "peer", "tensor": "shape", "name": "label"}
"""What torch calls a field whose name here is nothing like it."""
_DTYPES = frozenset(get_args(n.Dtype))
MAX_LINES = 1 << 16
"""Actions of a program whose line is kept, for what only the whole plan shows to be wrong."""


class Appender:
    """Collects actions in order; ``ProgramBuilder`` has a method for each operation.

    Attributes:
        path: Its place in the plan: ``$.ranks.0``.
        actions: The actions so far.
    """

    def __init__(self, path: str, *, lines: bool = False) -> None:
        self.path = path
        self._sources = lines
        self.actions: list[Any] = []
        self._block = self.actions
        self._open: list[Block] = []
        self._pending: list[Block] = []  # made and not entered yet
        self._lines: dict[int, Line] = {}
        self._named = 0

    def __len__(self) -> int:
        return len(self.actions)

    def __bool__(self) -> bool:
        """A program is one while it is empty, too: ``if program`` asks whether there is one."""
        return True

    def add(self, op: str, **fields: Any) -> Handle | None:
        """Append an action by operation name; ``async_`` or ``async_op`` stand for ``async``.

        Returns:
            The handle of an asynchronous call, else None.

        Raises:
            PlanError: Unknown operation, unknown field, missing field, or a value that a field
                cannot have.
        """
        return self._append(op, fields)

    def action(self, op: str, **fields: Any) -> n.Node:
        """Return the action that ``add`` would append, for ``extend``: of several programs, too.

        Raises:
            PlanError: As for ``add``; types and ranges are checked where it is appended.
        """
        return self._made(op, fields)

    def extend(self, actions: Iterable[Mapping[str, Any] | n.Node]) -> None:
        """Append actions as a plan file has them: ``{"op": "send", "peer": 1, "bytes": 4}``.

        What ``action`` returned is one, too. For programs that write many actions: all are checked
        at once, in a fifth of the time of ``add``. Handles are names that the caller chose, in
        ``work``; a field that is not stated is left out.

        Raises:
            PlanError: As for ``add``.
        """
        if self._pending:
            raise self._pending[0].not_entered()
        if isinstance(actions, str | bytes | dict) or not hasattr(actions, "__iter__"):
            hint = '[{"op": "send", "peer": 1, "bytes": 4}, ...]'
            raise placed(
                refusal("no list of actions", path=self.path, value=actions, hint=hint), caller()
            )
        actions = list(actions)
        line = author(1)
        if line is None:  # written by an adapter: build() checks it, and it has no line
            self._block += actions
            return
        rows: list[Any] = [
            msgspec.to_builtins(action) if isinstance(action, n.Node) else action
            for action in actions
        ]
        if self._sources:
            src = frame_of(0)
            rows = [{"src": src, **row} for row in rows]
        try:
            nodes = decoder_of(list[n.Action]).decode(encoded(rows, self.path))
        except (msgspec.DecodeError, UnicodeDecodeError, PlanError):
            for action in rows:  # one of them is wrong, or registered: as if added one by one
                if not isinstance(action, Mapping):
                    hint = '{"op": "send", "peer": 1, "bytes": 4}'
                    error = refusal("no action", path=self.path, value=action, hint=hint)
                    raise placed(error, caller()) from None
                self._append(action.get("op", ""), {k: action[k] for k in action if k != "op"})
            return
        self._block += nodes
        left = max(0, MAX_LINES - len(self._lines))
        self._lines.update((id(node), line) for node in nodes[:left])

    def _append(self, op: str, fields: dict[str, Any]) -> Handle | None:
        """Append an action; called by the public methods and by nothing else (see ``author``).

        Returns:
            The handle of an asynchronous call, else None.

        Raises:
            PlanError: As for ``add``.
        """
        if self._pending:
            raise self._pending[0].not_entered()
        if self._sources:
            self._source(fields)
        try:
            node = self._made(op, fields)
            line = author(2)
            # What PlanGuard's own adapters write is checked by build() alone: there is no line of
            # an author to name, and nobody to tell at once.
            if line is not None and op not in HOLDS:
                node = self._checked(op, node)
        except PlanError as error:
            raise placed(error, caller()) from None
        self._block.append(node)
        if line is not None and len(self._lines) < MAX_LINES:
            self._lines[id(node)] = line
        is_async = op in BLOCKING or fields.get("async_") or fields.get("async_op")
        if not is_async:
            return None
        inside = self._open[-1].op if self._open else None
        return Handle(self, self._block, fields.get("work"), inside)

    def _made(self, op: str, fields: dict[str, Any]) -> n.Node:
        """Return an action of fields of which None means absent; of a name of ours, mostly."""
        if "dtype" in fields and fields["dtype"] is not None:
            dtype = fields["dtype"]
            if type(dtype) is not str or dtype not in _DTYPES:
                fields["dtype"] = dtype_name(dtype)
        if None in fields.values():
            fields = {name: value for name, value in fields.items() if value is not None}
        try:
            node: n.Node = _CLASSES[op](**fields)
        except (KeyError, TypeError):
            node = self._make(op, fields)
        return node

    def _source(self, fields: dict[str, Any]) -> None:
        """Name the author's line in an action that has no source of its own."""
        if fields.get("src") is None:
            fields["src"] = frame_of(2)

    def _make(self, op: str, fields: dict[str, Any]) -> n.Node:
        """Make an action from fields that need care: renamed, absent or wrong."""
        if not isinstance(op, str):
            raise refusal("an operation has a name", path=self.path, value=op, hint='"send"')
        cls = _CLASSES.get(op) or find(op)
        if cls is None:
            hint = trouble_with(op) or nearest(op, _CLASSES)
            raise refusal("unknown operation", path=self.path, value=op, hint=hint)
        given = {_RENAMED.get(k, k): v for k, v in fields.items() if v is not None}
        try:
            return cls(**given)
        except TypeError as error:
            raise field_error(op, cls, given, error, self.path) from None

    def _checked(self, op: str, node: n.Node) -> n.Node:
        """Return an action whose fields have the types and ranges of the format.

        Raises:
            PlanError: One has not; the words and the path are those of the reader.
        """
        data = encoded(node, self.path)
        try:
            checked: n.Node = decoder_of(type(node)).decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._refuse(data, op)
        return checked

    def _refuse(self, data: bytes, op: str) -> NoReturn:
        from planguard.plan.reading.strict import parse_slowly

        alone = b'{"schema":"planguard.plan/1","world_size":1,"ranks":{"0":{"actions":[%b]}}}'
        here = self.path + (".actions" if self.path.startswith("$.ranks") else "")
        try:
            parse_slowly(alone % data, None)
        except PlanError as error:
            inside = error.path.removeprefix("$.ranks.0.actions[0]")
            outer = "".join(f"[{len(items)}]" for items in self._lists())
            error.path = f"{here}{outer}{inside}"
            raise
        raise refusal(f"{op}: a field has a value that the format does not have", path=here)

    def _lists(self) -> Iterator[list[Any]]:
        """Yield the lists that the next action stands in, outermost first."""
        yield self.actions
        for block in self._open:
            yield block.items

    # --- handles and blocks ------------------------------------------------------------------

    def _names(self, work: Any) -> Any:
        """Return the names of handles, where handles are given."""
        try:
            if isinstance(work, Handle):
                return work.named_in(self)
            if isinstance(work, (list, tuple)):
                return [one.named_in(self) if isinstance(one, Handle) else one for one in work]
            if work is None:
                hint = "async_=True makes a collective asynchronous; a synchronous one is over"
                raise refusal("there is no handle to wait for", path=self.path, hint=hint)
        except PlanError as error:
            raise placed(error, caller()) from None
        return work

    def name_handle(self, block: list[Any], index: int) -> str:
        """Give the handle of an action a name, and return it."""
        node = block[index]
        name = f"{n.op_name(node)}#{self._named}"
        self._named += 1
        block[index] = named = msgspec.structs.replace(node, work=name)
        line = self._lines.pop(id(node), None)
        if line is not None:
            self._lines[id(named)] = line
        return name

    def enter(self, block: Block) -> Handle | None:
        """Begin to collect the actions of a block.

        Raises:
            PlanError: It was entered before.
        """
        if block not in self._pending:
            hint = "every `with` has a block of its own"
            raise refusal(f"a block of {block.op}() entered twice", path=self.path, hint=hint)
        self._pending.remove(block)
        self._open.append(block)
        self._block = block.items
        return block.handle

    def leave(self, block: Block, fields: dict[str, Any] | None, *, failed: bool) -> None:
        """End a block; what was collected for one that raised is dropped.

        Raises:
            PlanError: A block inside it was made and not entered, or the block cannot be.
        """
        if self._open[-1] is not block:
            raise self._open[-1].still_open()
        self._open.pop()
        self._block = self._open[-1].items if self._open else self.actions
        pending, self._pending = self._pending, []
        if failed:
            return
        if pending:
            raise pending[0].not_entered()
        if fields is None:
            self._block.append(block.items)
            return
        try:
            node = self._make(block.op, fields | {HOLDS[block.op]: block.items})
        except PlanError as error:
            raise placed(error, block.line) from None
        self._block.append(node)
        if block.line is not None and len(self._lines) < MAX_LINES:
            self._lines[id(node)] = block.line
        if block.handle is not None:
            block.handle.settle(self._block)

    def finish(self) -> list[Any]:
        """Return the actions.

        Raises:
            PlanError: A block was made and not entered, or is still open.
        """
        if self._pending:
            raise self._pending[0].not_entered()
        if self._open:
            raise self._open[-1].still_open()
        return self.actions

    def line_of(self, node: Any) -> Line | None:
        """Return the author's line of an action, if it is known."""
        return self._lines.get(id(node))

    def _add_part(self, fields: dict[str, Any]) -> None:
        """Append one tensor of a coalesced collective."""
        if self._pending:
            raise self._pending[0].not_entered()
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            if not self._open or self._open[-1].op != "coalesced":
                hint = "with p.coalesced(kind): p.part(...)"
                raise refusal("part() outside of a coalesced() block", path=self.path, hint=hint)
            if "dtype" in given:
                given["dtype"] = dtype_name(given["dtype"])
            try:
                part = n.Part(**given)
            except TypeError as error:
                raise field_error("part", n.Part, given, error, self.path) from None
        except PlanError as error:
            raise placed(error, caller()) from None
        self._block.append(part)

    def _new_block(self, op: str, fields: dict[str, Any] | None) -> Block:
        line = author(2)
        if self._sources and fields is not None:
            self._source(fields)
        if fields is not None and line is not None:
            try:
                # What is inside comes later: an empty body stands for it until then.
                empty: list[Any] = [[]] if op == "choice" else []
                self._checked(op, self._make(op, fields | {HOLDS[op]: empty}))
            except PlanError as error:
                raise placed(error, caller()) from None
        block = Block(self, op, fields, line)
        self._pending.append(block)
        return block


def field_error(
    op: str, cls: type[msgspec.Struct], given: dict[str, Any], error: TypeError, path: str
) -> PlanError:
    """Return the error of a record that has no such field, or needs one more."""
    unknown = next((name for name in given if name not in cls.__struct_fields__), None)
    if unknown is None:
        return refusal(f"{op}: {error}", path=path)
    fields = cls.__struct_encode_fields__
    meant = _TORCH.get(unknown)
    hint = f"did you mean {meant!r}?" if meant in fields else nearest(unknown, fields)
    message = f"{op} has no field {unknown!r}"
    return refusal(message, code="PG906", path=path, value=unknown, hint=hint)


def encoded(value: Any, path: str = "$") -> bytes:
    """Return a part of a plan as JSON; numbers of other libraries become Python's own.

    Raises:
        PlanError: It holds something that JSON has no form for.
    """
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_plain)
        except UnicodeEncodeError:  # the name of a source file need be no UTF-8
            named = _with_names(msgspec.to_builtins(value, enc_hook=_plain))
            return msgspec.json.encode(named)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        hint = "fields hold numbers, strings, lists and dicts"
        message = f"a value cannot be written as JSON: {error}"
        raise refusal(message, path=path, hint=hint) from None


def _with_names(value: Any) -> Any:
    """Return a part of a plan whose source files have names that JSON can hold."""
    if isinstance(value, list | tuple):
        return [_with_names(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _with_names(one) for key, one in value.items()}
    src = found.get("src")
    if isinstance(src, list) and src and isinstance(src[0], str):
        found["src"] = [encodable(src[0]), *src[1:]]
    return found


def _plain(value: Any) -> Any:
    """Turn integers and floats of other libraries into Python's own."""
    if isinstance(value, SupportsIndex):
        return operator.index(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not a field value")
