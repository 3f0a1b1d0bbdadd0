"""Reading stored files: types of fields, files of PyTorch, safetensors, and YAML."""

from __future__ import annotations

import json
import math
import types
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.files.io import check_regular, json_text, reading, refuse_bomb

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
        InputError: if it cannot be read, is damaged or of another kind, or would unpack to far more
            than its size.
    """
    import torch

    if path.suffix == SAFETENSORS:
        check_extra("onnx", f"reading {path.name}", "safetensors")
    with reading(path, description, remedy):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                refuse_bomb(archive, path)
        content = (
            _read_safetensors(path) if path.suffix == SAFETENSORS
            else torch.load(path, map_location="cpu", weights_only=True)
        )  # fmt: skip
        if (why := unlike(content, declared)) is not None:
            raise ValueError(why)
        for tensor in _tensors(content):
            held = 0 if tensor.is_sparse else tensor.untyped_storage().nbytes()
            if tensor.numel() > MOST_EXPANDED and tensor.numel() * tensor.element_size() > held:
                raise ValueError("a tensor expanded beyond its storage")
    return content


SAFETENSORS = ".safetensors"


def safetensors_of(
    weights: Mapping[str, Tensor], settings: Mapping[str, Any], **facts: str
) -> bytes:
    """The content of NAME.safetensors: weights, and the settings of their encoder.

    Args:
        weights: the state of the encoder.
        settings: further content for :func:`load_torch`, as JSON.
        facts: further entries of the header, for other programs.
    """
    from safetensors.torch import save

    # safetensors refuses shared memory and non-contiguous tensors.
    copies = {name: tensor.contiguous().clone() for name, tensor in weights.items()}
    return save(copies, {"format": "pt", **facts, "settings": json_text({**settings})})


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        settings = json.loads(file.metadata()["settings"])
        return {**settings, "encoder": {name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118


MOST_EXPANDED = 10**6
"""Values of the largest tensor that may be expanded from fewer stored ones."""


def _tensors(content: object) -> Iterator[Any]:
    if hasattr(content, "untyped_storage"):
        yield content
    for part in _parts(content):
        yield from _tensors(part)


def with_weights(
    path: Path, weights: Mapping[str, Any], make: Callable[[], nn.Module], *, layers: int | None
) -> nn.Module:
    """A module with the weights of a file, in evaluation mode.

    Args:
        path: the file.
        weights: the state of the module.
        make: makes it.
        layers: number of its layers by its settings, if it is one of ours: its shapes are compared
            before it is made, since it might not fit into memory. None for the user's own.

    Raises:
        InputError: for weights of another module, or that are not finite; names the first.
    """
    import torch

    others = f"the encoders of {path} are other ones"
    if layers is not None:
        with reading(path, "a file of encoders"):
            if layers > len(weights):
                raise InputError(f"{others}: they have not {layers} layers")
            with torch.device("meta"):
                expected = make().state_dict()
            for name, weight in expected.items():
                if name in weights and (shape := weights[name].shape) != weight.shape:
                    raise InputError(
                        f"{others}: {name} is {[*shape]}, and by its settings {[*weight.shape]}"
                    )
    module = make()
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"{others}: {error}") from error
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


def unlike_ours(stored: object, ours: object) -> str | None:
    """How a stored state differs in its types and shapes from ours; None if it does not.

    Numbers must be finite. Dictionaries may have other fields, and a None of ours may be a stored
    number.

    Example:
        >>> unlike_ours({"lr": 0.1, "more": 1}, {"lr": 0.2})
        >>> unlike_ours([{"lr": "fast"}], [{"lr": 0.2}])
        '0: lr: it is a str'
    """
    pairs: list[tuple[Any, object, object]] = []
    if isinstance(ours, Mapping) and isinstance(stored, Mapping):
        pairs = [(name, stored[name], field) for name, field in ours.items() if name in stored]
    elif isinstance(ours, list | tuple) and isinstance(stored, list | tuple):
        if len(stored) != len(ours):
            return f"it has {len(stored)} values, not {len(ours)}"
        pairs = [*zip(range(len(ours)), stored, ours, strict=True)]
    elif not _is_like(stored, ours):
        return f"it is a {type(stored).__name__}"
    differences = ((name, unlike_ours(part, our_part)) for name, part, our_part in pairs)
    return next((f"{name}: {why}" for name, why in differences if why is not None), None)


def _is_like(stored: Any, ours: Any) -> bool:
    if hasattr(ours, "dtype"):
        return hasattr(stored, "dtype") and (stored.dtype, stored.shape) == (ours.dtype, ours.shape)
    is_number = isinstance(stored, int | float) and not isinstance(stored, bool)
    if ours is None:
        return stored is None or is_number
    if isinstance(ours, int | float) and not isinstance(ours, bool):
        return is_number and math.isfinite(stored)
    return isinstance(stored, type(ours))


def conforms(value: object, kind: Any) -> bool:
    """Whether a value has a type; integers count as floats, booleans are no numbers.

    Example:
        >>> conforms({"a": [1, 2.5]}, dict[str, list[float]]), conforms(["a"], list[int])
        (True, False)
    """
    return _checker(kind)(value)


@cache
def _checker(kind: Any) -> Callable[[Any], bool]:
    """A function that checks whether a value has a type."""
    outer, arguments = get_origin(kind) or kind, get_args(kind)
    if outer in (Union, types.UnionType):
        several = [_checker(argument) for argument in arguments]
        return lambda value: any(check(value) for check in several)
    if kind is Any:
        return lambda value: True
    if kind in (None, types.NoneType):
        return lambda value: value is None
    if outer in (int, float):
        return lambda value: isinstance(value, (int, outer)) and not isinstance(value, bool)
    if not arguments:
        return lambda value: isinstance(value, outer)
    key, inner = _checker(arguments[0]), _checker(arguments[-1])

    def check(value: Any) -> bool:
        if not isinstance(value, outer) or not all(map(inner, _parts(value))):
            return False
        return not isinstance(value, dict) or all(map(key, value))

    return check


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


LONGEST_TEXT = 64 * 2**20
"""Largest size in bytes of a file of settings or results."""


def text_of(path: Path) -> str:
    """The text of a file of settings or results.

    Args:
        path: the file, in UTF-8.

    Raises:
        InputError: if it is no regular file, such as a pipe, which might never end, or too large.
        OSError, UnicodeDecodeError: if reading fails.
    """
    check_regular(path)
    if (size := path.stat().st_size) > LONGEST_TEXT:
        raise InputError(f"{path} has {size:,} bytes, more than any file of its kind")
    return path.read_text(encoding="utf-8")


MOST_NODES = 10**6
"""Most values of a YAML file with its aliases expanded."""


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        InputError: if it cannot be read, is not YAML, or its aliases expand beyond bounds.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a.yaml").write_text("beta: [1, 2]")
        ...     read_yaml(Path(folder) / "a.yaml")
        {'beta': [1, 2]}
    """
    import yaml

    try:
        content = yaml.safe_load(text_of(path))
        size = _written_out(content, {})
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except (ValueError, yaml.YAMLError) as error:
        if isinstance(error, GclHardError):
            raise
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if size > MOST_NODES:
        raise InputError(f"{path} has {size:,} values with its aliases (*) expanded")
    return content


def _written_out(value: Any, seen: dict[int, int]) -> int:
    """Number of values in a nested one, shared ones counted every time."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in seen:
        seen[id(value)] = 0  # for a value that contains itself
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        seen[id(value)] = 1 + sum(_written_out(part, seen) for part in parts)
    return seen[id(value)]
