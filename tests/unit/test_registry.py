"""The registry of planner adapters."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a third-party distribution with one adapter, as pip would lay it out."""
    loaded, problems = dict(registry._loaded), dict(registry._problems)
    registry._loaded.clear()
    registry._problems.clear()

    def _install(name: str, module_text: str, *, distribution: str = "thirdparty") -> None:
        module = f"module_{uuid.uuid4().hex}"  # imports are remembered by name
        site = tmp_path / distribution
        info = site / f"{distribution}-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(f"[planguard.planners]\n{name} = {module}:adapter\n")
        (site / f"{module}.py").write_text(dedent(module_text))
        monkeypatch.syspath_prepend(str(site))

    yield _install
    registry._loaded.clear()
    registry._loaded.update(loaded)
    registry._problems.clear()
    registry._problems.update(problems)


GOOD = """
    class Adapter:
        name = "letters"
        def sniff(self, obj):
            return obj == b"letters"
        def adapt(self, obj, builder, **options):
            raise NotImplementedError
    adapter = Adapter()
"""


def test_built_in_adapters_are_found_without_importing_them() -> None:
    """Listing the adapters imports no adapter and no torch."""
    code = (
        "import sys; from planguard import registry; names = [e.name for e in registry.entries()]; "
        "assert 'pipelining' in names, names; "
        "bad = [m for m in sys.modules if m.startswith(('planguard.planners', 'torch', 'numpy'))]; "
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_source_tree_without_installation_finds_the_built_in_adapters(tmp_path: Path) -> None:
    """With the source tree on the path and nothing installed, the adapters beside it are found."""
    for part in ("planguard", "planners"):
        (tmp_path / part).symlink_to(ROOT / part)
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)  # a dependency, alone
    code = dedent(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from planguard import registry
        assert not list(registry.metadata.entry_points(group=registry.GROUP))
        assert registry.find("pipelining").sniff(b"0F0,1F0")
        entry = {{e.name: e for e in registry.entries()}}["pipelining"]
        assert entry.target == "planguard.planners.pipelining:adapter", entry
        assert entry.built_in
    """)
    # -I -S: no site-packages, so neither metadata nor the hook of an editable installation.
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


def test_third_party_adapter_is_found_by_name_and_by_input(install) -> None:
    """An installed distribution's adapter is found by its name and by what it recognizes."""
    install("letters", GOOD)
    assert registry.find("letters").name == "letters"
    assert registry.sniff(b"letters").name == "letters"


@pytest.mark.parametrize(
    ("signature", "options", "said"),
    [
        ("self, obj, builder", {"x": 1}, "has no option 'x'"),
        ("self, obj, builder, *, slots=1", {"slot": 2}, "did you mean 'slots'"),
        ("self, obj, builder, *, slots", {}, "needs the option 'slots'"),
        ("self, obj, builder, slots", {}, "needs the option 'slots'"),
        ("self, obj, builder, **options", {"self": 1}, "has no option 'self'"),
        ("self, obj, builder, **options", {"builder": 1}, "has no option 'builder'"),
        ("self, given, maker, **options", {"maker": 1}, "has no option 'maker'"),
    ],
)
def test_an_option_that_an_adapter_does_not_take_is_a_wrong_call(
    install, signature: str, options: dict[str, int], said: str
) -> None:
    """An option that ``adapt`` has no place for, and one that it needs and did not get, are a
    ``UsageError`` that names the adapter and the option, whatever ``adapt`` says of itself.
    """
    install("letters", GOOD.replace("self, obj, builder, **options", signature))
    with pytest.raises(UsageError, match="the letters adapter") as caught:
        planguard.load(b"letters", planner="letters", **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("signature", "options"),
    [
        ("self, obj, builder", {}),
        ("self, obj, builder, *, slots=1", {"slots": 2}),
        ("self, obj, builder, slots", {"slots": 2}),
        ("self, *rest, **options", {"x": 1}),
    ],
)
def test_an_option_that_an_adapter_takes_reaches_it(install, signature: str, options) -> None:
    """An adapter may name its options, or take any: it is called with those that were given."""
    install("letters", GOOD.replace("self, obj, builder, **options", signature))
    with pytest.raises(NotImplementedError):
        planguard.load(b"letters", planner="letters", **options)


def test_no_plugins_turns_third_party_adapters_off(install, monkeypatch) -> None:
    """PLANGUARD_NO_PLUGINS=1 leaves only PlanGuard's own adapters."""
    install("letters", GOOD)
    monkeypatch.setenv("PLANGUARD_NO_PLUGINS", "1")
    assert all(entry.built_in for entry in registry.entries())
    with pytest.raises(UsageError, match="no planner adapter is called 'letters'"):
        registry.find("letters")


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import no_such_module_anywhere", "raised ModuleNotFoundError"),
        ("adapter = object()", "has no name, sniff, adapt"),
        (GOOD.replace('"letters"', '"other"', 1), "it calls itself 'other'"),
        ("x = 1", "raised AttributeError"),
        ("raise ValueError('broken on import')", "broken on import"),
    ],
)
def test_broken_plugin_is_reported_and_named(install, module: str, reason: str) -> None:
    """An adapter that cannot be used is listed with its distribution and the reason, and a request
    for it says the same.
    """
    install("letters", module)
    listed = [str(p) for p in registry.problems() if p.entry.name == "letters"]
    assert len(listed) == 1
    assert "letters of thirdparty" in listed[0]
    assert reason in listed[0]
    with pytest.raises(UsageError, match="cannot be used"):
        registry.find("letters")


def test_broken_plugin_does_not_hide_the_others(install) -> None:
    """A plug-in whose sniff raises is reported, and the adapter that fits is still found."""
    install("letters", GOOD.replace('return obj == b"letters"', "raise RuntimeError('boom')"))
    assert registry.sniff(b"0F0,1F0").name == "pipelining"
    assert any("boom" in str(problem) for problem in registry.seen_problems())


def test_unrecognized_input_names_the_broken_plugins(install) -> None:
    """When nothing fits, the error mentions a plug-in that could not be asked."""
    install("letters", "raise ValueError('broken on import')")
    with pytest.raises(PlanError, match="broken on import"):
        registry.sniff(b"\x00 nothing")


def test_name_of_a_built_in_adapter_cannot_be_taken(install) -> None:
    """A third party that registers 'pipelining' does not replace the built-in, and is reported."""
    install("pipelining", GOOD)
    assert type(registry.find("pipelining")).__module__.startswith("planguard.planners")
    assert any("name is taken" in str(problem) for problem in registry.seen_problems())


def test_two_adapters_for_one_input_are_a_choice_of_the_caller(install) -> None:
    """When several adapters recognize an input, none is guessed."""
    install("letters", GOOD.replace('obj == b"letters"', "True"))
    with pytest.raises(UsageError, match="pipelining and letters all recognize"):
        registry.sniff(b"0F0,1F0")


def test_misspelt_name_gets_the_nearest() -> None:
    """An unknown planner name is answered with the nearest known one."""
    with pytest.raises(UsageError) as caught:
        registry.find("pipelinig")
    assert "pipelining" in caught.value.hint


def test_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    """A path that does not exist is not called unrecognized."""
    with pytest.raises(PlanError, match="no such file"):
        registry.sniff(tmp_path / "none.csv")


@pytest.mark.parametrize("given", ["path", "object"])
def test_json_that_names_no_schema_is_offered_to_the_adapters(given: str) -> None:
    """An execution plan of MSCCL++ has no schema and no world size: its adapter takes it."""
    path = Path(__file__).parents[2] / "tests/samples/mscclpp/allreduce-2.json"
    obj = path if given == "path" else json.loads(path.read_text())
    assert planguard.load(obj).name == "allreduce-2"


def test_json_that_nobody_recognizes_is_read_as_a_plan(tmp_path) -> None:
    """The refusal is that of the plan reader, with the place in the file."""
    path = tmp_path / "odd.json"
    path.write_text('{"worldsize": 2}')
    with pytest.raises(PlanError, match="worldsize") as refused:
        planguard.load(path)
    assert refused.value.code == "PG906"
