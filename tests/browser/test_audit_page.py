"""The page of an audit: the culprit first and marked, whatever evidence there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from planguard.cli import main

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = (
    "[rank{0}]:[E1120 03:14:15.{0}00000000 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1289, OpType=ALLREDUCE, NumelIn=4096, "
    "NumelOut=4096, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"
)
STATUS = (
    "[rank{0}]:[E1120 03:14:15.{0}00000000 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID "
    "0(default_pg) Rank {0}] Exception (either an error or timeout) detected by watchdog at work: "
    "{1}, last enqueued NCCL work: {1}, last completed NCCL work: 1288.\n"
)
STACK = (
    "Process {pid}: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\n\n"
    'Thread {pid} (active): "MainThread"\n{frames}    <module> (train.py:400)\n'
)
WAITS = "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    step (train.py:88)\n"
ELSEWHERE = "    read (dataset.py:17)\n    step (train.py:86)\n"


def logs(folder: Path) -> Path:
    """One log of eight ranks, of which rank 5 did not come."""
    rows = "".join(
        ("" if rank == 5 else TIMEOUT.format(rank)) + STATUS.format(rank, 1288 + (rank != 5))
        for rank in range(8)
    )
    (folder / "job.log").write_text(rows)
    return folder / "job.log"


def stacks(folder: Path) -> Path:
    """Stacks of four ranks, of which rank 2 reads a file."""
    made = folder / "stacks"
    made.mkdir()
    for rank in range(4):
        frames = ELSEWHERE if rank == 2 else WAITS
        (made / f"rank_{rank}.txt").write_text(STACK.format(pid=100 + rank, frames=frames))
    return made


def mixed(folder: Path) -> Path:
    """The dumps of the example without the culprit's, and its stack beside them."""
    made = folder / "mixed"
    made.mkdir()
    for file in sorted((ROOT / "examples" / "audit" / "missing").iterdir()):
        if file.is_file() and not file.stem.endswith("2"):
            (made / file.name).write_bytes(file.read_bytes())
    (made / "rank_2.txt").write_text(STACK.format(pid=102, frames=ELSEWHERE))
    return made


CASES = {
    "dumps": (lambda _: ROOT / "examples" / "audit" / "missing", None, True),
    "log": (logs, 5, False),
    "stacks": (stacks, 2, False),
    "mixed": (mixed, None, True),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=lambda size: str(size[0]))
def test_the_culprit_stands_in_the_first_screen(open_page, tmp_path, name, size):
    """Who, where it stopped or stands, how sure, what is not known; marked in the other views."""
    make, culprit, has_times = CASES[name]
    page = tmp_path / "page.html"
    assert main(["report", str(make(tmp_path)), "-o", str(page)]) == 0
    tab = open_page(page)
    tab.set_viewport_size({"width": size[0], "height": size[1]})
    box = tab.query_selector("#panel-verdict .culprit")
    assert box is not None, tab.inner_text("#panel-verdict")[:600]
    place = box.bounding_box()
    assert place["y"] < size[1] / 2
    text = box.inner_text()
    if culprit is not None:
        assert f"rank {culprit}" in text.splitlines()[0]
        bar = tab.locator("#selection")
        assert f"rank {culprit}" in bar.inner_text()
        assert bar.bounding_box()["height"] < 50  # one line: it covers what is chosen
    assert "how sure" in text
    assert "not known" in text
    assert (tab.query_selector("#panel-timeline") is not None) == has_times
    assert "NaN" not in tab.inner_text("body")
    width = tab.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0]
