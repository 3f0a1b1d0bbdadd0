"""Flags of how seeds are run, by backend."""

from __future__ import annotations

from typing import Any

RUNNING: dict[str, list[tuple[str, Any, Any, str]]] = {
    "graphs": [],
    "images": [
        ("workers", int, 0, "processes that make views on the CPU; 0: on the device, by this one"),
        ("monitor-every", int, 10, "epochs between points of the monitoring curve; 0: no curve"),
        ("checkpoint-minutes", float, 10.0, "between checkpoints of a seed; 0: after every step"),
    ],
}
"""Fields of ``Running``."""
RUNNING_SWITCHES: dict[str, list[tuple[str, str]]] = {
    "graphs": [],
    "images": [
        ("resume", "go on with seeds from their checkpoints"),
        ("save-encoder", "keep each trained encoder beside its record"),
    ],
}
