"""Reading stored files: types of fields, files of PyTorch, safetensors, and YAML."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.files.io import json_text, reading

if TYPE_CHECKING:
    from torch import Tensor, nn


def load_torch(path: Path, description: str, declared: Mapping[str, Any], remedy: str = "") -> Any:
    """The content of a PyTorch file; nothing in it is executed (``weights_only``).

    Args:
        path: the file; NAME.safetensors has settings and weights, as :func:`safetensors_of` writes.
        description: the expected kind of file, for the message.
        declared: types of the fields that it must have.
        remedy: what to do about a damaged file; ends the message.

    Raises:
        InputError: if it cannot be read, is damaged or of another kind.
    """
    import torch

    if path.suffix == SAFETENSORS:
        check_extra("onnx", f"reading {path.name}", "safetensors")
    with reading(path, description, remedy):
        content = (
            _read_safetensors(path) if path.suffix == SAFETENSORS
            else torch.load(path, map_location="cpu", weights_only=True)
        )  # fmt: skip
        if (why := unlike(content, declared)) is not None:
            raise ValueError(why)
    return content


SAFETENSORS = ".safetensors"
DATA = "data."
"""Prefix of tensors in NAME.safetensors that are no weights."""


def safetensors_of(
    weights: Mapping[str, Tensor], settings: Mapping[str, Any], **facts: str
) -> bytes:
    """The content of NAME.safetensors: weights, and the settings of their encoder.

    Args:
        weights: the state of the encoder.
        settings: further content for :func:`load_torch`, tensors or as JSON.
        facts: further entries of the header, for other programs.
    """
    from safetensors.torch import save

    data = {DATA + name: value for name, value in settings.items() if hasattr(value, "dim")}
    settings = {name: value for name, value in settings.items() if DATA + name not in data}
    # safetensors refuses shared memory and non-contiguous tensors.
    copies = {name: tensor.contiguous().clone() for name, tensor in {**weights, **data}.items()}
    return save(copies, {"format": "pt", **facts, "settings": json_text(settings)})


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        settings = json.loads(file.metadata()["settings"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    data = {name: tensors.pop(name) for name in [*tensors] if name.startswith(DATA)}
    data = {name.removeprefix(DATA): tensor for name, tensor in data.items()}
    return {**settings, **data, "encoder": tensors}


def with_weights(
    path: Path, weights: Mapping[str, Any], make: Callable[[], nn.Module]
) -> nn.Module:
    """A module with the weights of a file, in evaluation mode.

    Args:
        path: the file.
        weights: the state of the module.
        make: makes it.

    Raises:
        InputError: for weights of another module, or that are not finite; names the first.
    """
    module = make()
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"the encoders of {path} are other ones: {error}") from error
    for name, weight in module.state_dict().items():
        if not weight.isfinite().all():
            raise InputError(f"{path} is damaged: its {name} is not finite: train it again")
    return module.eval()


def unlike(content: object, declared: Mapping[str, Any]) -> str | None:
    """How fields differ from their declared types; None if they do not. Others are allowed.

    Args:
        content: a dictionary.
        declared: types by the names of fields, such as ``list[float]`` or ``int | None``; fields
            that may be ``None`` may be missing.

    Example:
        >>> unlike({"n": 3, "x": [0.5]}, {"n": int, "x": list[float], "note": str | None})
        >>> unlike({"n": True}, {"n": int})
        'n is a bool'
    """
    if not isinstance(content, Mapping):
        return f"it is a {type(content).__name__}"
    for name, kind in declared.items():
        if name not in content:
            if not conforms(None, kind):
                return f"it lacks {name}"
        elif not conforms(content[name], kind):
            return f"{name} is a {type(content[name]).__name__}"
    return None


def conforms(value: object, kind: Any) -> bool:
    """Whether a value has a type; integers count as floats, booleans are no numbers.

    What is inside a container is not compared.

    Example:
        >>> conforms(1, float), conforms(True, int), conforms(["a"], list[str] | None)
        (True, False, True)
    """
    if isinstance(kind, types.UnionType):
        return any(conforms(value, part) for part in get_args(kind))
    if kind is Any or kind is None:
        return kind is Any or value is None
    outer = get_origin(kind) or kind
    if outer in (int, float):
        return isinstance(value, (int, outer)) and not isinstance(value, bool)
    return isinstance(value, outer)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        InputError: if it is not YAML.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a.yaml").write_text("beta: [1, 2]")
        ...     read_yaml(Path(folder) / "a.yaml")
        {'beta': [1, 2]}
    """
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
