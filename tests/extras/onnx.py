"""A module as ONNX, run by ONNX Runtime, and weights as safetensors."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

from gcl_hard.experiments.exporting import Exportable, onnx_of
from gcl_hard.files.stored import load_torch, safetensors_of

torch.manual_seed(0)
linear = nn.Linear(3, 2)
exportable = Exportable(
    linear, {"input": {0: Dim("rows", min=1)}}, {"output": "rows"},
    lambda n: {"input": torch.ones(n, 3)},
)  # fmt: skip
content, checked = onnx_of(exportable, "a linear layer")
assert checked
assert content

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "a.safetensors"
    path.write_bytes(safetensors_of(linear.state_dict(), {"n": 3}))
    weights = load_torch(path, "weights", {"n": int})
assert weights["encoder"]["weight"].equal(linear.weight)
