"""Write the parameter list of Swin-T (names and element counts) that ``table3.py`` reads.

Needs transformers and torch; the architecture is the default ``SwinConfig`` (Swin-T, 1,000 classes)
with random weights, so nothing is downloaded::

    python tests/campaigns/swin_parameters.py

transformers keeps query, key and value of an attention apart (221 tensors). The model of the paper
has 173: one tensor ``qkv``, as in the original implementation; there are as many parameters.
"""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).parent / "data" / "swin_tiny.json"


def fused_attention(tensors: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Merge query, key and value into ``qkv`` where the query stands: weight, then bias."""
    counts = dict(tensors)
    merged = []
    for name, count in tensors:
        if ".self.query." in name:
            parts = [name.replace("query", part) for part in ("query", "key", "value")]
            merged.append((name.replace("query", "qkv"), sum(counts[part] for part in parts)))
        elif ".self.key." not in name and ".self.value." not in name:
            merged.append((name, count))
    return merged


def main() -> None:
    """Build the model and write its parameters in the order of ``named_parameters``."""
    from transformers import SwinConfig, SwinForImageClassification

    model = SwinForImageClassification(SwinConfig(num_labels=1000))  # type: ignore[no-untyped-call]
    plain = [(name, parameter.numel()) for name, parameter in model.named_parameters()]
    tensors = fused_attention(plain)
    lines = ",\n".join(json.dumps(tensor) for tensor in tensors)
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(len(tensors), "tensors,", sum(count for _, count in tensors), "parameters")


if __name__ == "__main__":
    main()
