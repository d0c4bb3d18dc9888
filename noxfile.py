"""The project's one task runner: ``nox -l`` lists the sessions."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    session.install("-e", ".[test-all]")
    session.run("pytest", *session.posargs)


@nox.session
def pure(session: nox.Session) -> None:
    session.install("-e", ".[test]", env={"PLANGUARD_PURE": "1"})
    session.run("pytest", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Run the tests of tests/wheel.txt against the installed wheel, without its source."""
    session.install(".[test]")
    session.run(".ci/wheel-tests", *session.posargs, external=True)


CORE = (
    *("config", "execution_help", "kernels", "plan_compile", "plan_flatten", "plan_format"),
    *("plan_selectors", "plan_views", "plan_wellformed", "reordering", "rules", "wait_for"),
    *("batches", "mpi", "result", "walk_order", "set_orders", "words"),
)
"""Files of tests/unit that hold the core: no torch, no process of its own."""


@nox.session(venv_backend="none")
def quick(session: nox.Session) -> None:
    """Check a change of the core in less than a minute: lint, layers, and the tests of the core.

    In the environment that is active; further arguments go to pytest.
    """
    session.run("ruff", "check", "planguard", "planners", "tests/unit")
    session.run(
        *("pytest", "-q", "-m", "not slow", "-n", "2", "--dist", "loadfile"),
        *("tests/corpus/test_litmus.py", "tests/corpus/test_choice_plans.py"),
        *(f"tests/unit/test_{name}.py" for name in CORE),
        *session.posargs,
    )


@nox.session
def lint(session: nox.Session) -> None:
    session.install("-e", ".[test]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("pytest", "-q", "tests/test_layers.py")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)


@nox.session
def types(session: nox.Session) -> None:
    session.install("-e", ".[test]")
    session.run("mypy", "--strict", "planguard", "planners")


@nox.session
def stub(session: nox.Session) -> None:
    """Write planguard/_native.pyi anew from the built module."""
    session.install("-e", ".[test]")
    session.run(
        *("python", "-m", "nanobind.stubgen", "-m", "planguard._native"),
        *("-o", "planguard/_native.pyi"),
    )


@nox.session(venv_backend="none")
def native(session: nox.Session) -> None:
    """Build the core without Python, with sanitizers, and run its tests."""
    with tempfile.TemporaryDirectory() as folder:
        build = str(Path(folder) / "build")
        session.run(
            *("cmake", "-S", "native", "-B", build, "-DPLANGUARD_SANITIZE=ON"),
            "-DCMAKE_BUILD_TYPE=Debug",
        )
        session.run("cmake", "--build", build, "--parallel", "2")
        session.run("ctest", "--test-dir", build, "--output-on-failure")


@nox.session(venv_backend="none")
def fuzz(session: nox.Session) -> None:
    """Fuzz the core under sanitizers for ten minutes, or ``-- SECONDS``; needs clang."""
    seconds = session.posargs[0] if session.posargs else "600"
    with tempfile.TemporaryDirectory() as folder:
        build = str(Path(folder) / "build")
        session.run(
            *("cmake", "-S", "native", "-B", build, "-DPLANGUARD_FUZZ=ON"),
            "-DCMAKE_CXX_COMPILER=clang++",
        )
        session.run("cmake", "--build", build, "--parallel", "2")
        session.run(
            *(f"{build}/tests/planguard_fuzz", f"-max_total_time={seconds}", "-max_len=600"),
            *("-print_final_stats=1", f"-artifact_prefix={folder}/"),
        )


@nox.session
def docs(session: nox.Session) -> None:
    """Run every example of the documentation; ``-- --update`` rewrites the transcripts."""
    session.install("-e", ".[test]")
    if "--update" in session.posargs:
        session.run("python", "tests/test_readme.py", "--update")
    session.run("pytest", "tests/test_readme.py")


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation site into site/; a broken link fails."""
    session.install("-e", ".[docs]")
    session.run(".ci/site", *session.posargs, external=True)


@nox.session
def trainers(session: nox.Session) -> None:
    """Run trainers that people use through dryrun, --stub, precheck and the live guard; CPU."""
    session.install("-e", ".[test]")
    session.install("--no-deps", "-r", "benchmarks/trainers/requirements.txt")
    session.run("python", "benchmarks/trainers", "--out", ".nox/trainers-run", *session.posargs)
    session.run("python", "benchmarks/trainers/conformance.py")


@nox.session
def bench(session: nox.Session) -> None:
    session.install("-e", ".[test]")
    for script in sorted(Path("benchmarks").glob("bench_*.py")):
        session.run("python", str(script), *session.posargs)
