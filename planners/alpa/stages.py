"""The collectives inside stages: the texts of compiled stages through the xla adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..xla.collectives import Translator
from ..xla.options import XlaOptions
from ..xla.reach import Reach
from ..xla.reading import read_text
from ..xla.walk import Walker

if TYPE_CHECKING:
    from ..xla.steps import Trace
    from .model import Dump, Host, Stage


class StageSteps:
    """What every device does inside every stage; each text is read once."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self._options = XlaOptions()
        self._known: dict[str, tuple[Translator, Reach]] = {}
        self._traces: dict[tuple[str, int], Trace] = {}

    def of(self, task: str, stage: Stage, host: Host, rank: int) -> Trace:
        """Return what a device does inside a stage.

        Raises:
            PlanError: The text is malformed, or is for another number of devices.
        """
        devices = self._dump.meshes[host.mesh]
        key = task, rank
        if key not in self._traces:
            translator, reach = self._read(task, stage, devices)
            device = devices.index(rank)
            trace = Walker(translator, reach, self._options, device).run()
            # Devices that do the same have one trace, so that what is made of it is made once.
            others = (known for (one, _), known in self._traces.items() if one == task)
            self._traces[key] = next((known for known in others if known == trace), trace)
        return self._traces[key]

    def _read(self, task: str, stage: Stage, devices: tuple[int, ...]) -> tuple[Translator, Reach]:
        if task not in self._known:
            place = f"{self._dump.file}: $.stages.{task}.hlo"
            module = read_text(stage.hlo, place)
            if module.devices != len(devices):
                raise PlanError(
                    f"the text is for {module.devices} devices, its mesh has {len(devices)}",
                    file=self._dump.file,
                    path=f"$.stages.{task}.hlo",
                    hint="one text per stage, compiled for the whole mesh",
                )
            self._known[task] = (
                Translator(module, 0, devices),
                Reach(module, self._options),
            )
        translator, reach = self._known[task]
        if tuple(translator.ranks) != devices:
            raise PlanError(
                f"task {task} runs on two meshes",
                file=self._dump.file,
                path=f"$.stages.{task}",
                hint="a stage belongs to one mesh",
            )
        return translator, reach
