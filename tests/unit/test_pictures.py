from __future__ import annotations

import gzip
import io
import json
import sys
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import planguard
from planguard.cli import main
from planguard.report.pictures.matrix_image import matrix_png, matrix_svg
from planguard.report.pictures.matrix_text import matrix_text
from planguard.report.pictures.perfetto import perfetto
from planguard.simulate.matrix import matrix
from planguard.simulate.schedule import schedule
from planguard.simulate.traffic import traffic


@pytest.fixture
def mesh(root):
    """The shipped three-dimensional plan of 16 ranks."""
    return planguard.load(root / "examples" / "mesh-3d.plan.json")


def test_the_sender_is_on_x(mesh):
    """Column 0 of the text is what rank 0 sends: to its tp, dp and pp neighbors."""
    rows = [line for line in matrix_text(matrix(traffic(mesh))).splitlines() if " | " in line]
    receivers = [int(row.split("|")[0]) for row in rows if row.split("|")[1].split()[0] != "."]
    assert receivers == [1, 2, 4]


def pixels_of(data):
    """Return the pixels of a PNG, height, width, 3."""
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(data)).convert("RGB"))


def test_a_png_has_a_square_per_pair(mesh):
    """Receiver down, sender across; pairs without traffic are gray; 32 units of two pixels each."""
    pytest.importorskip("PIL")
    moved = matrix(traffic(mesh))
    pixels = pixels_of(matrix_png(moved))
    middles = pixels[2 * 72 + 16 : 2 * 72 + 16 * 64 : 64, 2 * 64 + 16 : 2 * 64 + 16 * 64 : 64]
    gray = (middles == 238).all(axis=2)
    assert gray.shape == (16, 16)
    assert (~gray).sum() == len(traffic(mesh).total())
    assert not gray[4, 0]
    assert gray[0, 4]
    assert matrix_png(moved) == matrix_png(moved)


def test_a_png_has_a_title_axes_and_a_legend(mesh):
    """Something is written above, left of, below and right of the cells, as in the SVG."""
    pytest.importorskip("PIL")
    pixels = pixels_of(matrix_png(matrix(traffic(mesh)), counts=True))
    edge, low = 2 * (64 + 16 * 32), 2 * (72 + 16 * 32)
    written = (pixels < 128).all(axis=2)
    for name, part in {
        "title": written[:60], "labels": written[2 * 72 : low, 40:124], "axis": written[low:],
        "receiver": written[2 * 72 : low, :40], "legend": written[2 * 72 : low, edge + 80 :],
    }.items():  # fmt: skip
        assert part.any(), name


def test_a_png_without_pillow_says_how_to_get_it(root, tmp_path, monkeypatch, capsys):
    """One error with the extra and the SVG, exit code 2, nothing written."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    target = tmp_path / "matrix.png"
    assert main(["report", str(root / "examples" / "mesh-3d.plan.json"), "-o", str(target)]) == 2
    said = capsys.readouterr().err
    assert "planguard[pictures]" in said
    assert "matrix.svg" in said
    assert not target.exists()


def test_an_svg_is_well_formed_whatever_names_hold():
    """Markup and control characters in names are text."""
    builder = planguard.PlanBuilder(world_size=2)
    builder.group("</svg><script>x</script>\x1b[31m", [0, 1])
    for rank in range(2):
        builder.program(rank).all_reduce(group="</svg><script>x</script>\x1b[31m", bytes=4)
    moved = traffic(builder.build())
    title = next(iter(moved.edges)).group
    drawn = matrix_svg(matrix(moved, title=title))
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314  our own output
    assert "<script" not in drawn
    assert "\x1b" not in drawn


def test_a_trace_has_a_slice_per_span_and_arrows_along_matches(mesh):
    """Every span is one slice on its rank; n members of a match are joined by n - 1 arrows."""
    found = schedule(mesh)
    events = json.loads(gzip.decompress(perfetto(found)))["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == len(found.spans)
    members = {}
    for span in found.spans:
        if span.match is not None:
            members[span.match] = members.get(span.match, 0) + 1
    assert sum(e["ph"] == "s" for e in events) == sum(n - 1 for n in members.values())
    assert perfetto(found) == perfetto(schedule(mesh))


def test_a_stuck_action_is_a_slice_that_never_completes(root):
    """The witness is seen in the trace: open slices at the actions where ranks stand."""
    plan = planguard.load(root / "examples" / "head-to-head.plan.json")
    events = json.loads(gzip.decompress(perfetto(schedule(plan))))["traceEvents"]
    stuck = [e for e in events if e["ph"] == "B"]
    assert [(e["pid"], e["name"]) for e in stuck] == [
        (0, "never completes: send"), (1, "never completes: send"),
    ]  # fmt: skip


def test_the_command_writes_what_the_suffix_says(root, tmp_path, capsys):
    """Text by default, SVG, PNG and traces by suffix; an existing file is left alone."""
    plan = str(root / "examples" / "mesh-3d.plan.json")
    assert main(["report", plan]) == 0
    out = capsys.readouterr().out
    assert "all: 1.88 GiB in 384 messages (ring, modeled)" in out
    assert "timeline:" in out
    for name, head in (("m.svg", b"<svg"), ("m.png", b"\x89PNG"), ("t.json.gz", b"\x1f\x8b")):
        file = tmp_path / name
        assert main(["report", plan, "-o", str(file)]) == 0
        assert file.read_bytes().startswith(head)
        assert main(["report", plan, "-o", str(file)]) == 2
    assert main(["report", plan, "-o", str(tmp_path / "x.bmp")]) == 2
    assert main(["report", plan, "--only", "color=red", "--format", "svg"]) == 2


def pairs(*sent):
    """A matrix of two ranks from what each sends to the other."""
    import numpy as np

    from planguard.simulate.matrix import Matrix

    numbers = np.array([[0, sent[0]], [sent[1], 0]])
    return Matrix(numbers, (numbers > 0).astype(int), ("0", "1"), "all", "ring", "modeled")


def test_a_log_scale_begins_at_the_smallest_value():
    """1 MiB and 4 MiB are the ends of the scale, and the legend says so; equal values are one."""
    from planguard.report.pictures.matrix_image import color, matrix_svg, shares

    assert shares(pairs(1 << 20, 4 << 20).bytes).tolist() == [[-1.0, 0.0], [1.0, -1.0]]
    drawn = matrix_svg(pairs(1 << 20, 4 << 20))
    for share in (0.0, 1.0):
        assert "#{:02x}{:02x}{:02x}".format(*color(share)) in drawn
    assert drawn.index("4.00 MiB") < drawn.index("2.00 MiB") < drawn.index("1.00 MiB")
    assert shares(pairs(7, 7).bytes).tolist() == [[-1.0, 1.0], [1.0, -1.0]]
    assert matrix_svg(pairs(7, 7)).count(">7 B<") == 1
    assert shares(pairs(1, 4).bytes, log=False).tolist() == [[-1.0, 0.25], [1.0, -1.0]]
    assert "no traffic" in matrix_svg(pairs(0, 0))


def test_a_notebook_shows_a_matrix(monkeypatch):
    """As the picture that is saved; of one too large to draw its size, and what to ask for."""
    import planguard  # noqa: F401  fills the views in
    from planguard.simulate import matrix as module

    assert pairs(1, 2)._repr_html_().startswith("<svg")
    monkeypatch.setattr(module, "DRAWN", 1)
    assert "by_node=True" in pairs(1, 2)._repr_html_()


def test_a_run_that_is_too_long_is_not_written(root, tmp_path, monkeypatch, capsys):
    """A trace and tables are bounded as the page is: what cannot be folded has a limit."""
    from planguard.cli import main
    from planguard.report import page

    monkeypatch.setattr(page, "SIMULATED", 10)
    plan = root / "examples" / "mesh-3d.plan.json"
    for name in ("trace.json.gz", "times.sqlite"):
        assert main(["report", str(plan), "-o", str(tmp_path / name)]) == 2
        assert "336 actions are too many to simulate" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
