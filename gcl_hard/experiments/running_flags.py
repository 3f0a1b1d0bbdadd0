"""Flags of how seeds are run, by backend."""

from __future__ import annotations

from typing import Any

from gcl_hard.experiments.place import DEFAULT_RUNNING as USUAL
from gcl_hard.experiments.values import Members

DIAGNOSTICS = (
    "diagnostics", int, USUAL.diagnostics,
    "measure what the theory says every N epochs (docs: theory); 0: never",
)  # fmt: skip
RUNNING: dict[str, list[tuple[str, Any, Any, str]]] = {
    "graphs": [
        ("members", Members, Members(0),
         "encoders trained side by side; auto: 8 on a CPU (4 inductive), 256 on a GPU"),
        DIAGNOSTICS,
    ],
    "images": [
        ("workers", int, USUAL.workers,
         "processes that make views on the CPU; 0: on the device, by this one"),
        ("monitor-every", int, USUAL.monitor_every,
         "epochs between points of the monitoring curve; 0: no curve"),
        ("checkpoint-minutes", float, USUAL.checkpoint_minutes,
         "between checkpoints of a seed; 0: after every step"),
        DIAGNOSTICS,
    ],
}  # fmt: skip
"""Fields of ``Running``."""
RUNNING_SWITCHES: dict[str, list[tuple[str, str]]] = {
    "graphs": [],
    "images": [
        ("resume", "go on with seeds from their checkpoints"),
        ("save-encoder", "keep each trained encoder beside its record"),
    ],
}
