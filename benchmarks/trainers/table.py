"""The table of a run, and what is wrong in it."""

from __future__ import annotations

from typing import Any

UNSAFE = ("DEADLOCK", "POTENTIAL_DEADLOCK", "MISMATCH")
COMMANDS = ("dryrun", "stub", "precheck")


def problems(row: dict[str, Any]) -> list[str]:
    """Return what a row must not say."""
    found = []
    if row["bare_code"]:
        found.append(f"the intact job itself ends with {row['bare_code']}")
    for name in COMMANDS:
        if row[name] in UNSAFE:
            found.append(f"wrong alarm: {name} says {row[name]}: {row[f'{name}_why'][:2]}")
        elif row[name] != "SAFE":
            found.append(f"{name} is {row[name]}: {row[f'{name}_why'][:2]}")
    if not row["equal"]:
        found.append(f"counts differ: counted {row['counted']}, recorded {row['recorded']}")
    broken = row["broken"]
    if broken:
        if broken["truth"] == "ends":
            found.append("the slip does no harm")
        for name in COMMANDS:
            if broken[name] == "SAFE" and broken["truth"] != "ends":
                found.append(f"wrong SAFE: {name} of a job that {broken['truth']}")
            elif broken[name] not in UNSAFE:
                found.append(f"slip: {name} is {broken[name]}: {broken[f'{name}_why'][:2]}")
        if broken["truth"] == "hangs" and broken.get("guard_ranks") == []:
            found.append(f"slip: the guard names nobody: {broken['guard_said'][:2]}")
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    lines = [
        (
            "| trainer | calls a rank, recorded = counted | `dryrun` | `--stub` | `precheck` | "
            "slip | of itself | before: `--stub`, `precheck` | during: guard names | "
            "after: `dryrun` |"
        ),
        "|---|--:|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = sorted({sum(rows.values()) for rows in row["recorded"].values()})
        told = " to ".join(dict.fromkeys((f"{numbers[0]}", f"{numbers[-1]}"))) if numbers else "-"
        begin = (
            f"| {row['trainer']} | {told} {'=' if row['equal'] else '≠'} | {row['dryrun']} | "
            f"{row['stub']} | {row['precheck']} |"
        )
        broken = row["broken"]
        named = ", ".join(map(str, broken.get("guard_ranks", []))) or "nobody"
        named = named if "guard_ranks" in broken else "not run"
        lines.append(
            f"{begin} {row['slip']} | {broken['truth']} | "
            f"{broken['stub']}, {broken['precheck']} | {named} | {broken['dryrun']} |"
        )
    return "\n".join(lines)
