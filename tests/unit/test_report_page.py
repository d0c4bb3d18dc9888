from __future__ import annotations

import base64
import hashlib
import json
import pickle
import re
import zlib
from dataclasses import replace

import pytest

import planguard
from planguard.cli import main
from planguard.errors import UsageError
from planguard.report.page.columns import Columns
from planguard.report.page.html import SCRIPTS, asset
from planguard.report.page.stacks import stacks


def unpacked(page):
    """Return the document inside a page."""
    text = re.search(rb'id="data">([^<]*)<', page.data)[1]
    blob = zlib.decompress(base64.b64decode(text))
    length = int.from_bytes(blob[:4], "little")
    return json.loads(blob[4 : 4 + length])


@pytest.fixture
def example(root):
    """Return a shipped plan by name."""
    return lambda name: root / "examples" / name


def test_equal_inputs_give_equal_bytes(example):
    """The page of a plan is the same to the last byte, whoever writes it."""
    file = example("mesh-3d.plan.json")
    pages = [planguard.check(planguard.load(file)).report().data for _ in range(2)]
    assert pages[0] == pages[1]


def test_the_policy_names_the_hash_of_the_script_and_of_the_style(example):
    """Only this script and this style run: their hashes stand in the policy, no address does."""
    text = planguard.check(example("mesh-3d.plan.json")).report().data.decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for tag in ("script", "style"):
        body = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert len(body) == 1
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_the_page_names_no_address_and_no_markup_sink():
    """The sources write no markup, fetch nothing and evaluate nothing."""
    code = "".join(asset(f"{name}.js") for name in SCRIPTS)
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                 "Function(", "fetch(", "XMLHttpRequest", "import("):  # fmt: skip
        assert sink not in code
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", code)


@pytest.mark.parametrize(
    "name", ["pipelining/zbv-deferred-2x4.csv", "xla/triangle.hlo", "msccl/hierarchical-8x2.xml"]
)
def test_no_absolute_path_is_in_the_page(example, name):
    """The folder of the plan file stays out, in findings, in the full diagnostic, in numbers."""
    file = example(name).resolve()
    found = json.dumps(unpacked(planguard.check(file).report()))
    assert file.name in found
    assert str(file.parent) not in found


def test_a_column_is_planes_of_bytes():
    """A column comes back from its planes, least significant plane first."""
    columns = Columns()
    columns.put("small", [1, 2, 255], "u8")
    columns.put("wide", [1, 0x01020304])
    blob = zlib.decompress(base64.b64decode(columns.packed({})))
    length = int.from_bytes(blob[:4], "little")
    assert blob[4 + length :] == bytes([1, 2, 255]) + bytes([1, 4, 0, 3, 0, 2, 0, 1])


def test_the_verdict_knows_its_plan(example, tmp_path):
    """verdict.report() draws the plan that was checked, reads its file again, or asks for it."""
    file = tmp_path / "a.plan.json"
    file.write_bytes(example("mesh-3d.plan.json").read_bytes())
    verdict = planguard.check(file)
    bare = replace(verdict)
    assert bare == verdict
    assert bare.report().data == verdict.report().data
    file.write_bytes(example("head-to-head.plan.json").read_bytes())
    with pytest.raises(UsageError, match="not at hand"):
        bare.report()
    assert bare.report(planguard.load(example("mesh-3d.plan.json")))
    assert pickle.loads(pickle.dumps(verdict)) == verdict  # noqa: S301  our own bytes


def test_a_notebook_gets_a_frame_without_rights(example):
    """The frame may run its script and nothing else: no origin, no forms, no way to the top."""
    shown = planguard.check(example("head-to-head.plan.json")).report()._repr_html_()
    assert 'sandbox="allow-scripts"' in shown
    assert shown.count("<") == 2


def test_the_command_writes_the_page(example, tmp_path, capsys):
    """report -o x.html writes the page with the repair; an existing file needs --force."""
    out = tmp_path / "x.html"
    arguments = ["report", str(example("head-to-head.plan.json")), "-o", str(out)]
    assert main(arguments) == 0
    assert out.read_bytes().startswith(b"<!doctype html>")
    assert main(arguments) == 2
    assert main([*arguments, "--force"]) == 0
    assert "wrote" in capsys.readouterr().err


def test_a_page_that_is_too_large_keeps_one_rank_per_class(example, monkeypatch):
    """Above the cap the timeline drops to representatives of equal ranks, and the page says so."""
    from planguard.report import page

    verdict = planguard.check(example("mesh-3d.plan.json"))
    whole = verdict.report()
    assert unpacked(whole)["left"]["drawn"] == "all"
    monkeypatch.setattr(page, "CAP", len(whole.data) - 1)
    cut = verdict.report()
    assert unpacked(cut)["left"] == {"drawn": "classes", "ranks": 4, "actions": 336}
    assert len(unpacked(cut)["time"]["ranks"]) == 4
    assert len(unpacked(cut)["strategy"]["nodes"]) == len(unpacked(whole)["strategy"]["nodes"])


def test_rows_are_ordered_by_stage_and_alike_inside(example):
    """The rows of a mesh come stage by stage, equal programs side by side."""
    time = unpacked(planguard.check(example("mesh-3d.plan.json")).report())["time"]
    assert [stage["name"] for stage in time["tree"]] == [f"stage {s}" for s in range(4)]
    assert [rank["rank"] for rank in time["ranks"]] == list(range(16))
    for stage in time["tree"]:
        assert len({time["ranks"][row]["alike"] for row in stage["rows"]}) == 1


def test_operators_stand_in_execution_order(example):
    """x grows along every program, and along every message from its send to its receive."""
    graph = unpacked(planguard.check(example("pipelining/interleaved1f1b-4x8.csv")).report())
    graph = graph["strategy"]
    by_block = {}
    for block, layer, *_ in graph["nodes"]:
        assert layer > by_block.get(block, -1)
        by_block[block] = layer
    messages = [edge for edge in graph["edges"] if edge[2] == 6]
    assert len(messages) == 112
    assert all(graph["nodes"][s][1] < graph["nodes"][t][1] for s, t, *_ in messages)


def test_the_case_studies_of_visual_diagnostics(root, monkeypatch):
    """PanGu-alpha: its uncut table is the one finding. ResNet-50: the links of stage 1 carry more,
    link 0-2 is the fastest, and stages 10 % apart in FLOPs are no finding; the pixel map shows it.
    """
    monkeypatch.syspath_prepend(str(root / "tests" / "browser"))
    import cases

    pangu = unpacked(planguard.check(cases.pangu(), rules=True).report())
    assert [finding["code"] for finding in pangu["verdict"]["findings"]] == ["PG621"]
    large = unpacked(planguard.check(cases.pangu(layers=40), rules=True).report())
    assert [finding["code"] for finding in large["verdict"]["findings"]] == ["PG621"]
    assert (len(large["strategy"]["nodes"]), large["world"]) == (40 * 8 + 2, 16)
    assert len(large["strategy"]["stacks"][0]) == 40
    resnet = unpacked(planguard.check(cases.resnet50(), rules=True).report())
    assert "PG610" not in {finding["code"] for finding in resnet["verdict"]["findings"]}
    links = {tuple(link["pair"]): link for link in resnet["topology"]["links"]}
    assert links[0, 1]["bytes"] < links[2, 3]["bytes"]
    assert max(links, key=lambda pair: links[pair]["bandwidth"]) in {(0, 2), (2, 0)}
    devices = {device["rank"]: device["flops"] for device in resnet["time"]["ranks"]}
    assert 1.05 < devices[2] / devices[0] < 1.20


def test_equal_subtrees_stack_and_different_ones_do_not():
    """Three equal layers stack to one run; a layer with another operator ends the run."""
    nodes, edges = [], []
    for layer, kinds in enumerate(["mm gelu mm"] * 3 + ["mm relu mm"]):
        nodes += [(0, f"layers/{layer}", kind) for kind in kinds.split()]
    edges += [(at, at + 1) for at in range(len(nodes) - 1)]
    assert stacks(nodes, edges) == [[[0, 1, 2], [3, 4, 5], [6, 7, 8]]]
    assert stacks([(0, "", "mm"), (0, "", "mm")], []) == []


def test_links_have_their_sums_and_quartiles(root):
    """A link's bytes are those of the matrix; least to most bound the operators on it."""
    from planguard.report.page.links import topology
    from planguard.simulate.matrix import matrix
    from planguard.simulate.traffic import traffic

    plan = planguard.load(root / "examples" / "mesh-3d.plan.json")
    moved = matrix(traffic(plan)).bytes
    links = topology(plan)["links"]
    assert sum(link["bytes"] for link in links) == moved.sum()
    for link in links:
        assert link["bytes"] == moved[tuple(link["pair"])]
        assert link["sizes"] == sorted(link["sizes"])


def test_resnet18_under_ddp_has_the_buckets_of_its_shapes(root, monkeypatch):
    """16 ranks, from the shapes alone: one bucket in the first backward pass, three afterwards, of
    the sizes of ComScribe's golden case; buffers are broadcast before every forward pass.
    """
    monkeypatch.syspath_prepend(str(root / "tests" / "browser"))
    import cases

    document = cases.resnet18(steps=2)
    actions = next(iter(document["ranks"].values()))["actions"]
    reduced = [action["count"] for action in actions if action["op"] == "all_reduce"]
    assert reduced == [11_689_512, 513_000, 7_213_056, 3_963_456]
    sent = [action["count"] for action in actions if action["op"] == "broadcast"]
    assert sent.count(9_600) == 2
    found = planguard.check(document).matrix(primitive="all_reduce")
    assert found.labels == tuple(map(str, range(16)))
    assert (found.bytes > 0).sum() == 16
