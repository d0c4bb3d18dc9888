"""A real Chromium, once per module; pages of plans, written once each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
PLACES = ("chromium", "chromium-browser", "google-chrome")
ROOT = HERE.parents[1]


def _refuse(reason: str) -> None:
    if os.environ.get("PLANGUARD_REQUIRE_BROWSER") == "1":
        pytest.fail(f"PLANGUARD_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """Chromium of the system, headless, without network services of its own.

    Not for the session: while playwright runs, no other test can start an event loop.
    """
    found = os.environ.get("PLANGUARD_BROWSER") or next(filter(None, map(shutil.which, PLACES)), "")
    if not found:
        _refuse("no Chromium is installed: the page is tested in a real browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _refuse("playwright is not installed: the page is tested in a real browser")
    with sync_playwright() as run:
        started = run.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()


def _documents(name: str):
    import cases

    makers = {
        "resnet18": cases.resnet18, "resnet50": cases.resnet50, "pangu": cases.pangu,
        "1f1b": cases.pipeline, "hostile": cases.hostile, "dense": lambda: cases.dense(16, 400),
    }  # fmt: skip
    if name in makers:
        return makers[name]()
    return ROOT / (name if name.startswith("tests/") else f"examples/{name}")


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Return the path of the page of a plan: a case, or a file under examples/."""
    import planguard

    folder, made = tmp_path_factory.mktemp("pages"), {}

    def make(name: str) -> Path:
        if name not in made:
            verdict = planguard.check(_documents(name), rules=True, fix=True, budget=5)
            made[name] = folder / f"{len(made)}.html"
            verdict.report().save(made[name])
        return made[name]

    return make


@pytest.fixture
def open_page(browser):
    """Open a page by its path; nothing may be requested, logged as an error or thrown."""
    opened = []

    def go(path: Path, state: str = "", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(15_000)
        tab = context.new_page()
        tab.trouble = []
        tab.on("pageerror", lambda error: tab.trouble.append(str(error)))
        tab.on("console", lambda said: said.type == "error" and tab.trouble.append(said.text))
        tab.on(
            "request",
            lambda asked: asked.url.startswith("file:") or tab.trouble.append(asked.url),
        )
        tab.goto(path.as_uri() + (f"#{state}" if state else ""))
        tab.wait_for_selector("html[data-drawn]")
        opened.append((context, tab))
        return tab

    yield go
    trouble = [text for _, tab in opened for text in tab.trouble]
    for context, _ in opened:
        context.close()
    assert not trouble


@pytest.fixture
def visit(open_page, pages):
    """Open the page of a plan."""
    return lambda name, state="", **options: open_page(pages(name), state, **options)
