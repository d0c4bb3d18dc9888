"""The report page in a real browser: first drawing, zooming, size of the file.

    python benchmarks/page.py [--actions 5000] [--browser /usr/bin/chromium]

Prints a row of docs/reference/report.md: milliseconds from the start of navigation to the first
drawing, and from every wheel step of a zoom to the frame after it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

import planguard
from planguard.report.page import page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
import cases

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
STEPS = 24
ZOOM = """async (out) => {
  const times = [], canvas = planguard.plot.canvas;
  const box = canvas.getBoundingClientRect();
  for (let i = 0; i < out.steps; i++) {
    const event = new WheelEvent("wheel", { deltaY: -60, ctrlKey: true, cancelable: true,
      clientX: box.left + box.width * (0.3 + 0.4 * (i % 5) / 5), clientY: box.top + 100 });
    const begin = performance.now();
    canvas.dispatchEvent(event);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - begin);
  }
  return times;
}"""


def _busy(meter) -> float:
    """Return the processor time of the page's main thread, ms: it does not count other work."""
    found = meter.send("Performance.getMetrics")["metrics"]
    return 1000 * next(m["value"] for m in found if m["name"] == "TaskDuration")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=5000)
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    plan = planguard.load(cases.dense(args.ranks, args.actions))
    verdict = planguard.check(plan)
    begin = time.perf_counter()
    made = page(plan, verdict)
    written = time.perf_counter() - begin
    first, zooms, busy = [], [], []
    with TemporaryDirectory() as folder, sync_playwright() as run:
        path = Path(folder) / "report.html"
        made.save(path)
        browser = run.chromium.launch(executable_path=args.browser, args=list(FLAGS))
        for _ in range(args.runs):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            meter = tab.context.new_cdp_session(tab)
            meter.send("Performance.enable", {"timeDomain": "threadTicks"})
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-drawn]")
            first.append(int(tab.evaluate("document.documentElement.dataset.drawn")))
            start = _busy(meter)
            zooms += tab.evaluate(ZOOM, {"steps": STEPS})
            busy.append((start, (_busy(meter) - start) / STEPS))
            tab.close()
        version = browser.version
        browser.close()
    zooms.sort()
    print(f"Chromium {version}, {args.ranks} ranks x {args.actions:,} actions, {args.runs} loads")
    print(f"file                 {len(made.data):,} bytes, written in {written:.1f} s")
    print(
        f"first drawn          {min(first)} to {max(first)} ms, median {statistics.median(first)}"
    )
    loads, steps = ([round(ms, 1) for ms in own] for own in zip(*busy, strict=True))
    print(f"main thread, loading {min(loads)} to {max(loads)} ms of processor time")
    print(f"main thread, zooming {min(steps)} to {max(steps)} ms of processor time a step")
    at = zooms[int(0.95 * len(zooms))]
    print(f"wheel zoom           p50 {statistics.median(zooms):.1f} ms, p95 {at:.1f} ms")


if __name__ == "__main__":
    main()
