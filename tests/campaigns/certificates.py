"""Which SAFE verdicts have a certificate, and why the others have none: one command.

Checks the plans of the corpus, the examples and the samples, and random plans of every shape of
``tests/campaigns/campaign.py``, under all nine models, and asks for a certificate of each. Every
one is checked by the independent checker before it is handed out. What has none is counted by
reason:

    python tests/campaigns/certificates.py                  # 400 random plans, and every file
    python tests/campaigns/certificates.py --count 2000 --no-files

docs/reliability.md holds the last results.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import campaign  # finds the folders of the tests
from oracle.models import MODELS

import planguard
from planguard import CheckOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/corpus", "examples", "tests/samples")
LARGEST = 60_000
"""Plans of files with more actions are passed over: they are of shapes that smaller ones have."""


@dataclass
class Inventory:
    """SAFE verdicts, with a certificate and without.

    Attributes:
        plans: Plans checked, by where they come from.
        kinds: Certificates made and accepted, by origin and kind.
        without: SAFE without a certificate, by origin and reason.
        examples: The first plan and model of every reason.
    """

    plans: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    without: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def count(self, origin: str, name: str, plan: Any, models: Sequence[str]) -> None:
        """Check one plan under some models."""
        self.plans[origin] += 1
        for model in models:
            verdict = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
            if not verdict.safe:
                continue
            if verdict.certificate is not None:
                self.kinds[origin, verdict.certificate["kind"]] += 1
                continue
            why = reason(verdict)
            self.without[origin, why] += 1
            self.examples.setdefault(why, f"{name} under {model}")

    def origins(self) -> list[str]:
        """Return where SAFE verdicts come from, in the order of the table."""
        return sorted({origin for origin, _ in (*self.kinds, *self.without)})


def reason(verdict: Any) -> str:
    """Return why a SAFE verdict has no certificate, without what is only of this plan."""
    said = verdict.reasons[-1].removeprefix("no certificate: ") if verdict.reasons else "unsaid"
    said = re.sub(r"rank \d+, action \d+ ?(\(\w+\))?:? ?", "", said)
    said = re.sub(r"\[[^]]*\]|\d[\d,]*", "N", said)
    return said.split("; SAFE rests")[0][:110]


def of_files() -> Iterator[tuple[str, str, Any]]:
    """Yield what can be read as a plan in the folders: origin, name, plan."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix == ".py" or path.name.startswith("."):
                continue
            try:
                plan = planguard.load(path)
            except (planguard.PlanGuardError, OSError, UnicodeError):
                continue
            if 0 < plan.actions <= LARGEST:
                yield folder, str(path.relative_to(ROOT)), plan


def of_campaign(first: int, count: int) -> Iterator[tuple[str, str, Any]]:
    """Yield random plans of the campaign: shape, seed, plan."""
    for seed in range(first, first + count):
        shape, document = campaign.draw(seed)
        try:
            yield f"campaign: {shape}", f"seed {seed}", planguard.load(document)
        except planguard.PlanError:
            continue


def take(found: Iterator[tuple[str, str, Any]], models: Sequence[str]) -> Inventory:
    """Return the inventory of some plans."""
    inventory = Inventory()
    for origin, name, plan in found:
        inventory.count(origin, name, plan, models)
    return inventory


def table(inventory: Inventory) -> str:
    """Return the inventory as a table, and the reasons below it."""
    lines = [f"{'origin':24}{'plans':>7}{'SAFE':>7}{'certified':>11}{'without':>9}"]
    for origin in inventory.origins():
        held = sum(n for (where, _), n in inventory.kinds.items() if where == origin)
        bare = sum(n for (where, _), n in inventory.without.items() if where == origin)
        plans = inventory.plans[origin]
        lines.append(f"{origin:24}{plans:>7,}{held + bare:>7,}{held:>11,}{bare:>9,}")
    kinds, reasons = Counter[str](), Counter[str]()
    for (_, kind), number in inventory.kinds.items():
        kinds[kind] += number
    for (_, why), number in inventory.without.items():
        reasons[why] += number
    lines += ["", "certificates by kind: " + ", ".join(f"{k} {n:,}" for k, n in kinds.items())]
    lines += ["", "without one, by reason:"]
    lines += [f"{n:>7,}  {why}  ({inventory.examples[why]})" for why, n in reasons.most_common()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the inventory."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=400, help="how many seeds")
    parser.add_argument("--no-files", action="store_true", help="random plans only")
    given = parser.parse_args(arguments)
    begin = time.monotonic()
    found = take(of_campaign(given.first, given.count), list(MODELS))
    if not given.no_files:
        files = take(of_files(), list(MODELS))
        found.plans += files.plans
        found.kinds += files.kinds
        found.without += files.without
        found.examples = files.examples | found.examples
    print(table(found))
    print(f"\n{time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
