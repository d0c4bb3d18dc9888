"""Draw the pictures of the documentation anew: python docs/pictures/draw.py [NAME...].

Needs Chromium, playwright, and for `timeline-beside-torch` matplotlib and Pillow.
"""

# ruff: noqa: SLF001 - torch's visualizer takes torch's private actions

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import pickle
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("browser", "integration", "unit")]

TRACE = ROOT / "tests" / "corpus" / "traces" / "ddp-2-steps"
GPU = ROOT / "tests" / "corpus" / "traces" / "gpu" / "sampled.json.gz"
TIMES = {"F": 100, "I": 100, "W": 100, "B": 200}


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    import cases
    from playwright.sync_api import sync_playwright

    wanted = names or list(PICTURES)
    found = os.environ.get("PLANGUARD_BROWSER") or shutil.which("chromium")
    with sync_playwright() as run, tempfile.TemporaryDirectory() as folder:
        browser = run.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name in wanted:
            PICTURES[name](Sheet(browser, Path(folder)), cases)
        browser.close()


class Sheet:
    """Takes pictures of parts of pages."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder

    def write(self, document: Any) -> Path:
        """Return the page of a plan."""
        import planguard

        out = self.folder / "page.html"
        planguard.check(document, rules=True, fix=True, budget=5).report().save(out)
        return out

    def shoot(self, page: Path, state: str, selector: str, name: str, *, width: int = 1120) -> Path:
        """Write one element of a page as docs/pictures/NAME.png, or into the folder."""
        size = {"width": width, "height": 900}
        tab = self.browser.new_context(viewport=size, device_scale_factor=1.5).new_page()
        tab.goto(f"{page.as_uri()}#theme=light&{state}")
        tab.wait_for_selector("html[data-drawn]")
        tab.evaluate("document.getElementById('selection').style.display = 'none'")
        tab.wait_for_timeout(600)
        target = (self.folder if name.startswith("_") else HERE) / f"{name}.png"
        tab.locator(selector).first.screenshot(path=target)
        tab.close()
        return target


def pipeline_plan(short: str, ranks: int = 4, batches: int = 8) -> Any:
    """Return torch's schedule as a plan with the durations of torch's picture."""
    import planguard

    path = ROOT / "tests" / "samples" / "pipelining" / "regenerate.py"
    spec = importlib.util.spec_from_file_location("regenerate", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["regenerate"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = planguard.load(module.make_schedule(short, ranks, batches), planner="pipelining")
    document = json.loads(made.source)
    for use in document["ranks"].values():
        for action in use["actions"]:
            if action["op"] == "compute":
                action["duration_us"] = TIMES.get(action.get("op_name"), 0)
            elif action["op"] in {"isend", "irecv"}:
                action["bytes"] = 1 << 10
    document["name"] = f"{short}, {ranks} ranks, {batches} microbatches"
    document["model"] = "gloo"  # messages on their own, as torch's picture takes them
    return document


def beside_torch(sheet: Sheet, _: Any) -> None:
    """1F1B, interleaved 1F1B and ZBV: torch's visualizer above, the timeline of the page below."""
    from PIL import Image, ImageDraw, ImageFont
    from torch.distributed.pipelining import _schedule_visualizer as visualizer

    import planguard

    strips = []
    for short, title in (
        ("Schedule1F1B", "1F1B"), ("interleaved1f1b", "interleaved 1F1B"), ("zbv", "ZBV"),
    ):  # fmt: skip
        document = pipeline_plan(short)
        rows = order_of(planguard.load(document))
        actions = [[visualizer._Action.from_str(name) for name in row] for row in rows]
        with contextlib.redirect_stdout(io.StringIO()):
            spaced = visualizer.add_schedule_op_spacing(actions)
        theirs = sheet.folder / "torch.png"
        visualizer.visualize_schedule(spaced, str(theirs))
        state = "open=timeline&view=gantt"
        ours = sheet.shoot(sheet.write(document), state, ".time", "_ours", width=1240)
        for whose, file in (("torch's visualizer", theirs), ("PlanGuard", ours)):
            image = Image.open(file).convert("RGB")
            tall = round(image.height * 1400 / image.width)
            strips.append((f"{title}, {whose}", image.resize((1400, tall))))
    sheet_ = Image.new("RGB", (1440, sum(i.height + 36 for _, i in strips) + 10), "white")
    pen, at = ImageDraw.Draw(sheet_), 4
    for words, image in strips:
        pen.text((20, at + 6), words, fill="black", font=ImageFont.load_default(20))
        sheet_.paste(image, (20, at + 32))
        at += image.height + 36
    sheet_.quantize(64).save(HERE / "timeline-beside-torch.png", optimize=True)


def order_of(plan: Any) -> list[list[str]]:
    """Return the computations of every rank in order, as torch names them."""
    rows = []
    for rank in range(plan.world_size):
        nodes = plan.program(rank).nodes
        rows.append([f"{n.stage}{n.op_name}{n.mb}" for n in nodes
                     if n.__struct_config__.tag == "compute" and n.op_name in TIMES])  # fmt: skip
    return rows


def witness(sheet: Sheet, _: Any) -> None:
    """Who waits for whom, step by step, the repaired plan below."""
    page = sheet.write(ROOT / "examples" / "head-to-head.plan.json")
    sheet.shoot(page, "open=waits", "#panel-waits", "witness")


def one_f_one_b(sheet: Sheet, cases: Any) -> None:
    """1F1B on four ranks, with its critical path."""
    page = sheet.write(cases.pipeline())
    sheet.shoot(page, "open=timeline&path=on", "#panel-timeline", "timeline-1f1b")


def trace(sheet: Sheet, _: Any) -> None:
    """Two measured steps of DDP on two ranks, and the overview over its steps."""
    from planguard.cli import main as planguard_main

    page = sheet.folder / "trace.html"
    planguard_main(["report", str(TRACE), "-o", str(page), "--force"])
    sheet.shoot(page, "open=timeline", "#panel-timeline", "measured-ddp")
    state = "open=overview&iteration=1"
    sheet.shoot(page, state, "#panel-overview", "training-overview", width=1000)


def inside(sheet: Sheet, _: Any) -> None:
    """Two steps of one rank of 128 on a GPU: threads, streams, counters, critical path."""
    from planguard.cli import main as planguard_main

    page = sheet.folder / "gpu.html"
    planguard_main(["report", str(GPU), "-o", str(page), "--force"])
    sheet.shoot(page, "open=inside", "#panel-inside", "inside-gpu")


def matrices(sheet: Sheet, cases: Any) -> None:
    """ResNet-18 under DDP on 16 ranks."""
    page = sheet.write(cases.resnet18())
    sheet.shoot(page, "open=matrices", "#panel-matrices", "matrices-resnet18")


def strategy(sheet: Sheet, cases: Any) -> None:
    """A strategy of PanGu-alpha's kind, its uncut table chosen."""
    page = sheet.write(cases.pangu())
    state = "open=strategy&op=0,0,0"
    sheet.shoot(page, state, "#panel-strategy", "strategy-pangu", width=1240)


def topology(sheet: Sheet, cases: Any) -> None:
    """ResNet-50 on four devices: links and what they carry."""
    sheet.shoot(sheet.write(cases.resnet50()), "open=topology", "#panel-topology", "links-resnet50")


def memory(sheet: Sheet, _: Any) -> None:
    """Three ranks of a training: the batch of rank 1 is larger, and memory runs out."""
    from memory_cases import training

    from planguard.cli import main as planguard

    files = []
    for rank, batch in enumerate((8, 14, 8)):
        files.append(sheet.folder / f"rank{rank}.pickle")
        files[-1].write_bytes(pickle.dumps(training(batch).snapshot()))
    page = sheet.folder / "memory.html"
    planguard(["report", *map(str, files), "-o", str(page)])
    sheet.shoot(page, "open=memory", "#main", "memory")


PICTURES = {
    "timeline-1f1b": one_f_one_b,
    "timeline-beside-torch": beside_torch,
    "witness": witness,
    "measured-ddp": trace,
    "inside-gpu": inside,
    "matrices-resnet18": matrices,
    "strategy-pangu": strategy,
    "links-resnet50": topology,
    "memory": memory,
}

if __name__ == "__main__":
    main(sys.argv[1:])
