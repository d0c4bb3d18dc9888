"""``planguard check --certificate FILE``: certificates, and the flat plans they are about."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from planguard.report import Result

_SUFFIXES = (".gz", ".json", ".plan")


def certificate_writers(args: argparse.Namespace) -> list[CertificateWriter]:
    """Return what writes the certificates that were asked for.

    Raises:
        UsageError: A file exists that would be overwritten, or several plans share a file.
    """
    if args.certificate is None:
        return []
    writer = CertificateWriter(Path(args.certificate), args.paths, force=args.force)
    writer.refuse_existing()
    return [writer]


class CertificateWriter:
    """A reporter that writes the certificate of every safe plan.

    Args:
        target: The file for one plan; a folder for several.
        paths: The plans.
        force: Overwrite what exists.
    """

    def __init__(self, target: Path, paths: list[str], *, force: bool) -> None:
        self._force = force
        if len(paths) == 1 and not target.is_dir():
            self._targets = {paths[0]: target}
            return
        if not target.is_dir():
            hint = "name an existing folder for the certificates of several plans"
            raise UsageError(f"{target} is no folder", hint=hint)
        self._targets = {path: target / f"{_stem(path)}.certificate.json" for path in paths}
        if len(set(self._targets.values())) < len(self._targets):
            hint = "check them one by one, or rename them"
            raise UsageError("two plans would share the name of a certificate", hint=hint)

    def refuse_existing(self) -> None:
        """Refuse before anything is checked.

        Raises:
            UsageError: A file exists, and --force was not given.
        """
        for target in self._targets.values():
            for file in (target, flat_name(target)):
                if file.exists() and not self._force:
                    raise UsageError(f"{file} exists", hint="--force overwrites it")

    def add(self, result: Result) -> None:
        """Write the certificate of one result, and the flat plan that it is about.

        Raises:
            UsageError: A file cannot be written.
        """
        from planguard.certificate.format import encode
        from planguard.plan.flatten import flat_lines

        if result.plan is None or result.verdict is None:
            return
        verdict, target = result.verdict, self._targets[result.path]
        if verdict.certificate is None:
            reasons = verdict.reasons or (f"the outcome is {verdict.outcome.value}",)
            reason = reasons[-1].removeprefix("no certificate: ")
            print(f"no certificate of {result.path}: {reason}", file=sys.stderr)
            return
        flat = flat_name(target)
        try:
            with flat.open("wb" if self._force else "xb") as file:
                file.writelines(flat_lines(result.plan))
            with target.open("wb" if self._force else "xb") as file:
                file.write(encode(verdict.certificate))
        except OSError as error:
            raise UsageError(
                f"cannot write a certificate: {error}", hint="choose another"
            ) from None
        print(f"wrote {target}: python -m planguard.certificate {flat} {target}", file=sys.stderr)

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
