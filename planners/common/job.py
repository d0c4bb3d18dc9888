"""A module, a number of ranks and options: what the DDP, FSDP2 and Horovod adapters read.

Each has a file format of its own name, ``planguard.<adapter>/1``: the fields of the module,
``world_size``, ``options`` and ``rank_options``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from planguard.errors import PlanError, UsageError
from planguard.files import write

from .module import MODULE_FIELDS, describe, module_json, read_module
from .options import is_integer, wrong

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .module import ModuleInfo
    from .reading import At

Options = TypeVar("Options")
MAX_WORLD = 1 << 20


@dataclass(frozen=True)
class Job(Generic[Options]):
    """What one of these adapters turns into a plan.

    Attributes:
        module: The module.
        world_size: Number of ranks.
        options: The options, those of single ranks inside.
    """

    module: ModuleInfo
    world_size: int
    options: Options


@dataclass(frozen=True)
class JobReader(Generic[Options]):
    """Reads and writes the jobs of one adapter.

    Attributes:
        adapter: Its name.
        read_options: Options and number of ranks to the checked options; raises UsageError.
    """

    adapter: str
    read_options: Callable[[Mapping[str, object], int], Options]

    @property
    def schema(self) -> str:
        """Name of the file format."""
        return f"planguard.{self.adapter}/1"

    def of_module(
        self, module: Any, given: Mapping[str, Any], found: Mapping[str, Any] | None = None
    ) -> Job[Options]:
        """Return the job of a live module, which is not run.

        Args:
            module: An ``nn.Module``.
            given: ``world_size`` and options of the call.
            found: Options that the module was made with; those of the call come first.

        Raises:
            PlanError: A parameter has no size yet, or a dtype that is not known.
            UsageError: An option does not exist or has an impossible value.
        """
        rest = dict(given)
        world = self.world_size(rest)
        options = merge_options(dict(found or {}), rest)
        return Job(describe(module), world, self.read_options(options, world))

    def of_file(self, at: At, given: Mapping[str, Any]) -> Job[Options]:
        """Return the job of a document; options of the call come before those of the file.

        Raises:
            PlanError: The file is malformed, or an option of it is.
            UsageError: The number of ranks is missing or impossible.
        """
        known = ("schema", "name", "world_size", *MODULE_FIELDS, "options", "rank_options")
        fields = at.fields(*known)
        if "schema" not in fields or fields["schema"].value != self.schema:
            at.fail(f"not a file {self.schema}", hint=f'it starts with {{"schema": "{self.schema}"')
        described = {key: value for key, value in fields.items() if key in MODULE_FIELDS}
        if not described:
            at.fail("the file lists no parameters")
        module = read_module(described)
        if "name" in fields:
            module = replace(module, name=fields["name"].text(1_000))
        rest = dict(given)
        if "world_size" in fields:
            rest.setdefault("world_size", fields["world_size"].integer(1, MAX_WORLD))
        world = self.world_size(rest)
        try:
            options = self.read_options(merge_options(_options_of(fields), rest), world)
        except UsageError as error:
            raise PlanError(
                error.message, file=at.file, path="$.options", hint=error.hint
            ) from error
        return Job(module, world, options)

    def world_size(self, given: dict[str, Any]) -> int:
        """Take the number of ranks out of the options.

        Raises:
            UsageError: It is missing or impossible.
        """
        world = given.pop("world_size", None)
        if not is_integer(world, 1, MAX_WORLD):
            raise wrong(
                self.adapter, "world_size", world, "the number of ranks, for example world_size=8"
            )
        return int(world)

    def dump(self, module: Any, path: str | Path, world_size: int, options: dict[str, Any]) -> None:
        """Write a job as a file, which needs no code to read.

        Raises:
            UsageError: An option does not exist or has an impossible value.
        """
        self.read_options(options, world_size)
        document = {"schema": self.schema, "world_size": world_size}
        document |= module_json(describe(module)) | _options_json(options)
        write(path, _text(document))


def merge_options(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return options of a file overridden by those of the call; ranks are merged one by one."""
    merged = {**first, **second}
    ranks, others = {**first.get("rank_options", {})}, second.get("rank_options") or {}
    if not (isinstance(others, Mapping) and all(isinstance(o, Mapping) for o in others.values())):
        return merged  # refused where the options are checked
    for rank, own in others.items():
        ranks[rank] = {**ranks.get(rank, {}), **own}
    return {**merged, "rank_options": ranks} if ranks else merged


def _options_of(fields: dict[str, At]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "options" in fields:
        found = _values(fields["options"])
    if "rank_options" in fields:
        found["rank_options"] = {rank: _values(own) for rank, own in fields["rank_options"].items()}
    return found


def _values(at: At) -> dict[str, Any]:
    return {key: value.value for key, value in at.items()}


def _options_json(options: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in options.items() if key != "rank_options"}
    found: dict[str, Any] = {"options": plain} if plain else {}
    if options.get("rank_options"):
        found["rank_options"] = {str(k): dict(v) for k, v in options["rank_options"].items()}
    return found


def _text(document: dict[str, Any]) -> str:
    """Return JSON with one tensor per line."""
    lines = []
    for key, value in document.items():
        if key in {"parameters", "buffers"}:
            inside = ",\n  ".join(json.dumps(tensor) for tensor in value)
            lines.append(f'"{key}": [\n  {inside}]')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    return "{" + ",\n ".join(lines) + "}\n"
