"""The cause of a failing plan stands in the first screen of its page."""

from __future__ import annotations

import pytest
from driving import until

SEEN = """() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), out = [];
  while (walk.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    const boxes = [...range.getClientRects()];
    if (boxes.length && boxes.every((b) => b.width > 0 && b.top >= 0 && b.bottom <= innerHeight && b.left >= 0 && b.right <= innerWidth + 1)) out.push(walk.currentNode.data);
  }
  return out.join("\\n");
}"""  # noqa: E501

BUGS = "tests/corpus/bugs"
SAMPLES = {
    # sample: the rank to blame, its call, where that stands (read in the files, not in answers)
    "head-to-head.plan.json": ("rank 0", "send -> 1", "head-to-head.plan.json:"),
    "xla/skipped.hlo": ("ranks 4-7", "all_reduce on 0,4", "skipped.hlo:63"),
    "pipelining/pytorch-172668.csv": ("rank 0", "isend -> 1", "pytorch-172668.csv:1"),
    "alpa/1f1b-3x2-reversed.alpa.json": ("rank 0", "init on sendrecv", "reversed.alpa.json:2"),
    "blind-spots/cross-group-inversion.plan.json": ("rank 0", "all_reduce on dp", ".json:"),
    "blind-spots/swapped-all-reduces.plan.json": ("rank 0", "layer0.grad", ".json:"),
    "blind-spots/three-sends-one-receive.plan.json": ("rank 1", "send -> 1", ".json:"),
    f"{BUGS}/transformers-17478.bug.plan.json": ("rank 1", "barrier on world", ".json:"),
    f"{BUGS}/pytorch-109401.bug.plan.json": ("rank 0", "irecv <- 1", ".json:"),
    f"{BUGS}/deepspeed-5008.bug.plan.json": ("rank 0", "reduce_scatter_tensor", ".json:"),
    f"{BUGS}/nccl-1192.bug.plan.json": ("rank 0", "reduce on world", ".json:7"),
    f"{BUGS}/marin-7344.bug.plan.json": ("rank 0", "all_gather_into_tensor on fsdp0", ".json:9"),
    f"{BUGS}/torchrec-4149.bug.plan.json": ("rank 0", "host_sync", ".json:9"),
    f"{BUGS}/megatron-lm-1450.bug.plan.json": ("rank 0", "batch(isend -> 1", ".json:"),
}
SCREENS = {"desk": (1440, 900), "phone": (390, 844)}


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", SAMPLES)
def test_rank_call_and_line_of_the_cause_stand_in_the_first_screen(visit, name, screen):
    """Without scrolling, on a desk and on a phone: who, which call, which line."""
    width, height = SCREENS[screen]
    tab = visit(name, viewport={"width": width, "height": height}, reduced_motion="reduce")
    seen = tab.evaluate(SEEN)
    for text in SAMPLES[name]:
        assert text in seen, seen
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_line_is_that_of_the_action(visit, root, name):
    """The line that is told holds the action: in a plan file, its operation."""
    tab = visit(name)
    file, _, line = tab.evaluate("planguard.data.verdict.cause.place").rpartition(":")
    path = next(p for p in (root / "examples", root) if (p / name).exists()) / name
    assert path.name == file.rsplit("/", 1)[-1]
    cause = tab.evaluate("planguard.data.verdict.cause")
    if name.endswith(".plan.json"):
        assert (
            f'"{cause["call"].split(" ")[0].split("(")[0]}"'
            in path.read_text().split("\n")[int(line) - 1]
        )


def test_the_missing_rank_is_marked_and_first(visit):
    """Who never came leads the timeline and the lanes of the witness, marked "stopped here"."""
    tab = visit(f"{BUGS}/transformers-17478.bug.plan.json")
    until(tab, "document.querySelectorAll('.row .stopped').length === 1")
    first = tab.evaluate("planguard.data.time.ranks[0].rank")
    assert first == 1
    assert "stopped here" in tab.locator(".lanes > div").first.inner_text()
    assert "rank 1" in tab.locator(".lanes > div").first.inner_text()


def test_the_witness_plays_by_itself_once(visit):
    """Opened, the page steps through the witness to its end; less motion shows the end at once."""
    tab = visit("head-to-head.plan.json")
    until(tab, "planguard.state.step !== undefined")
    until(tab, "document.querySelector('#play').textContent === 'play'")
    assert tab.locator("[data-state=stuck]").count() == 2
    calm = visit("head-to-head.plan.json", reduced_motion="reduce")
    assert calm.evaluate("planguard.state.step === undefined")
    assert calm.locator("[data-state=stuck]").count() == 2


@pytest.mark.parametrize("name", [*SAMPLES, "later.plan.json", "every-op.plan.json"])
def test_no_slider_is_dead_and_no_chart_is_empty(visit, name):
    """A slider that is shown has somewhere to go, and a panel that is there has something in it."""
    tab = visit(name, reduced_motion="reduce")
    dead = "[...document.querySelectorAll('input[type=range]')].filter((i) => i.offsetParent && Number(i.max) < 1).length"  # noqa: E501
    assert tab.evaluate(dead) == 0
    edges = tab.evaluate("planguard.data.columns['edge.src'][2]")
    nodes = tab.evaluate("planguard.data.strategy.nodes.length")
    assert tab.locator("#panel-matrices").count() == (edges > 0)
    assert tab.locator("#panel-strategy").count() == (nodes > 0)


def test_a_headline_number_leads_to_its_view(visit):
    """A click on a number opens the panel that it comes from and chooses what it speaks of."""
    tab = visit("mesh-3d.plan.json")
    tab.locator("#numbers button", has_text="largest message").click()
    assert tab.evaluate("planguard.state.op.length") == 3
    assert "all_reduce" in tab.inner_text("#selection")
    tab.locator("#numbers button", has_text="bytes moved").click()
    assert tab.locator("#panel-matrices[open]").count() == 1


def test_the_search_box_finds_rows_by_words(visit):
    """Every word must be in a row; the address keeps what was looked for."""
    tab = visit("mesh-3d.plan.json", "open=tables&table=actions")
    rows = "document.querySelectorAll('#panel-tables tbody tr').length"
    whole = tab.evaluate(rows)
    tab.fill("#find", "all_reduce dp")
    until(tab, f"{rows} < {whole}")
    texts = [row.inner_text() for row in tab.locator("#panel-tables tbody tr").all()]
    assert texts
    assert all("all_reduce" in text and "dp" in text for text in texts)
    until(tab, "location.hash.includes('find=')")


def test_panels_and_cause_are_headings(visit):
    """A screen reader walks the page by its headings: the plan, the cause, every panel."""
    tab = visit("head-to-head.plan.json")
    heads = [head.inner_text() for head in tab.locator("h1, h2").all()]
    assert len(heads) == 2 + tab.locator("details.panel").count()
    assert "PG001" in heads[1]


def test_the_message_queues_are_a_table(visit):
    """Rank, queue, call, peer and line of what waits where the run ends; none where all ended."""
    tab = visit("blind-spots/three-sends-one-receive.plan.json", "open=tables&table=queues")
    until(tab, "document.querySelectorAll('#panel-tables tbody tr').length > 1")
    rows = tab.locator("#panel-tables tbody tr").all_inner_texts()
    assert rows[0].split("\t")[:4] == ["0", "sends that wait", "1", "1"]
    assert any("messages nobody received" in row and ".json:9" in row for row in rows)
    tab = visit("mesh-3d.plan.json", "open=tables")
    assert "queues" not in tab.locator("#table option").all_inner_texts()
