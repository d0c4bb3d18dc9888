"""What the site has beyond the files of docs/: its order, the API, and pages of the repository.

docs/index.md is the table of contents: the order of the site is read from it. The API reference is
made from the docstrings of what the package exports. Links that leave docs/ lead to a page of the
site where the repository's root has one, and are plain text otherwise.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BESIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the repository's root, and what they are called on the site."""
API = "reference/api.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading as a repository shows it, which the pages' links rely on."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files, config):
    """Add the pages of the root and the API reference."""
    for name, page in BESIDE.items():
        if (ROOT / name).exists():
            text = _moved((ROOT / name).read_text(encoding="utf-8"), name, page)
            files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, API, content=_api()))
    config.nav = _nav(files)
    return files


def on_page_markdown(markdown, page, **_):
    """Lead links that leave docs/ to the pages of the site."""
    if page.file.src_uri in {*BESIDE.values(), API}:
        return markdown
    return _moved(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def _moved(text: str, source: str, page: str) -> str:
    """Return the text of a file of the repository as the text of a page of the site.

    Args:
        text: Markdown.
        source: The file, from the repository's root.
        page: The page, from docs/.
    """

    def moved(link: re.Match[str]) -> str:
        target, hash_, anchor = link[3].partition("#")
        if "://" in target or not target or target.startswith("mailto:"):
            return link[0]
        path = os.path.normpath(os.path.join(os.path.dirname(source), target))  # noqa: PTH118,PTH120
        if path.startswith("docs" + os.sep):
            goal = path[len("docs") + 1 :]
        elif path in BESIDE and (ROOT / path).exists():
            goal = BESIDE[path]
        else:
            return link[2] if "`" in link[2] else f"{link[2]} (`{path}`)"
        if (DOCS / goal).is_dir():
            return f"{link[2]} (`docs/{goal}`)"
        new = os.path.relpath(goal, os.path.dirname(page) or ".")  # noqa: PTH120
        return f"{link[1]}[{link[2]}]({new}{hash_}{anchor})"

    return LINK.sub(moved, text)


def _api() -> str:
    """Return the page of what the package exports, from its table of names."""
    tree = ast.parse((ROOT / "planguard" / "__init__.py").read_text(encoding="utf-8"))
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id in ("_HOMES", "__all__")
    }
    homes = tables["_HOMES"]
    lines = ["# The API, from its docstrings", "",
             "[The library](library.md) explains these names with examples.", ""]  # fmt: skip
    for name in tables["__all__"]:
        if name != "__version__":
            home = homes.get(name, f"planguard.{name}")
            lines += [f"## `{name}`", "", f"::: {home}.{name}", ""]
    return "\n".join(lines)


def _nav(files) -> list:
    """Return the order of docs/index.md; codes, decisions and reports come from their folders."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    nav: list = [{"Home": "index.md"}, {"Overview": BESIDE["README.md"]}]
    for part in re.split(r"^\*\*", text, flags=re.MULTILINE)[1:]:
        title = part.partition("**")[0]
        pages = [
            {re.sub("`", "", shown)[0].upper() + re.sub("`", "", shown)[1:]: target}
            for shown, target in re.findall(r"\[([^\]]*)\]\(([^)#:]*\.md)\)", part)
            if not target.startswith("..")
        ]
        if title == "Reference":
            codes = sorted(f.src_uri for f in files if f.src_uri.startswith("codes/PG"))
            pages.append({"API": API})
            pages.append({"Finding codes": ["codes/README.md", *codes]})
        if title == "Explanation":
            lists = {"adr/README.md", "upstream/README.md"}
            pages = [page for page in pages if lists.isdisjoint(page.values())]
            records = sorted(f.src_uri for f in files if re.match(r"adr/\d", f.src_uri))
            pages.append({"Decisions": ["adr/README.md", *records]})
            reports = sorted(f.src_uri for f in files if re.match(r"upstream/[a-z]", f.src_uri))
            pages.append({"Ready for upstream": ["upstream/README.md", *reports]})
        nav.append({title: pages})
    rest = [page for name, page in BESIDE.items() if name != "README.md" and (ROOT / name).exists()]
    nav.append({"Project": rest})
    return nav
