"""``planguard check --certificate FILE``: certificates, and the flat plans they are about."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import UsageError
from planguard.files import write

if TYPE_CHECKING:
    import argparse

    from planguard.files import Targets
    from planguard.report import Result

_SUFFIXES = (".gz", ".json", ".plan")


def certificate_writers(args: argparse.Namespace, targets: Targets) -> list[CertificateWriter]:
    """Return what writes the certificates that were asked for.

    Raises:
        UsageError: A file must not be written, or several plans share a file.
    """
    if args.certificate is None:
        return []
    return [CertificateWriter(Path(args.certificate), args.paths, targets)]


class CertificateWriter:
    """A reporter that writes the certificate of every safe plan.

    Args:
        target: The file for one plan; a folder for several.
        paths: The plans.
        targets: What guards the outputs.
    """

    def __init__(self, target: Path, paths: list[str], targets: Targets) -> None:
        if len(paths) == 1 and not target.is_dir():
            names = {paths[0]: target}
        elif not target.is_dir():
            hint = "name an existing folder for the certificates of several plans"
            raise UsageError(f"{target} is no folder", hint=hint)
        else:
            names = {path: target / f"{_stem(path)}.certificate.json" for path in paths}
        if len(set(names.values())) < len(paths):
            hint = "check them one by one, or rename them"
            raise UsageError("two plans would share the name of a certificate", hint=hint)
        self._targets = {
            path: tuple(targets.claim(file, "--certificate") for file in (name, flat_name(name)))
            for path, name in names.items()
        }

    def add(self, result: Result) -> None:
        """Write the certificate of one result, and the flat plan that it is about.

        Raises:
            OSError: A file cannot be written.
        """
        from planguard.certificate.format import encode
        from planguard.plan.flatten import flat_lines

        if result.plan is None or result.verdict is None:
            return
        verdict = result.verdict
        target, flat = self._targets[result.path]
        if verdict.certificate is None:
            reasons = verdict.reasons or (f"the outcome is {verdict.outcome.value}",)
            reason = reasons[-1].removeprefix("no certificate: ")
            print(f"no certificate of {result.path}: {reason}", file=sys.stderr)
            return
        write(flat, flat_lines(result.plan))
        write(target, encode(verdict.certificate))
        print(
            f"wrote {target.path}: python -m planguard.certificate {flat.path} {target.path}",
            file=sys.stderr,
        )

    def close(self) -> None:
        """Everything is written already."""


def flat_name(target: Path) -> Path:
    """Return the name of the flat plan beside a certificate: ``x.json`` to ``x.plan.json``."""
    return target.with_name(target.name.removesuffix(".json") + ".plan.json")


def _stem(path: str) -> str:
    name = Path(path).name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name
