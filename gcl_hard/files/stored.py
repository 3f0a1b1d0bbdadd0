"""Reading what was stored: types of fields, files of PyTorch, safetensors, and YAML."""

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


def load_torch(path: Path, what: str, declared: Mapping[str, Any], remedy: str = "") -> Any:
    """The content of a file of PyTorch; nothing in it is executed (``weights_only``).

    Args:
        path: the file; NAME.safetensors has settings and weights, as :func:`safetensors_of` writes.
        what: it should be, for the message.
        declared: types of the fields that it must have.
        remedy: what to do about a damaged one; how the message ends.

    Raises:
        InputError: if it cannot be read, is damaged or something else, or would unpack to far more
            than its size.
    """
    import torch

    if path.suffix == SAFETENSORS:
        check_extra("onnx", f"reading {path.name}", "safetensors")
    with reading(path, what, remedy):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                refuse_bomb(archive, path)
        found = (
            _of_safetensors(path) if path.suffix == SAFETENSORS
            else torch.load(path, map_location="cpu", weights_only=True)
        )  # fmt: skip
        if (why := unlike(found, declared)) is not None:
            raise ValueError(why)
        for one in _tensors(found):
            held = 0 if one.is_sparse else one.untyped_storage().nbytes()
            if one.numel() > MOST_EXPANDED and one.numel() * one.element_size() > held:
                raise ValueError("a tensor that repeats what it holds")
    return found


SAFETENSORS = ".safetensors"


def safetensors_of(
    weights: Mapping[str, Tensor], settings: Mapping[str, Any], **facts: str
) -> bytes:
    """The content of NAME.safetensors: weights, and what makes the encoder that has them.

    Args:
        weights: the state of the encoder.
        settings: what else :func:`load_torch` gives back, as JSON.
        facts: what others read in the header.
    """
    from safetensors.torch import save

    # Those that share memory are refused, and so is what is not contiguous.
    copies = {name: one.contiguous().clone() for name, one in weights.items()}
    return save(copies, {"format": "pt", **facts, "settings": json_text({**settings})})


def _of_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        settings = json.loads(file.metadata()["settings"])
        return {**settings, "encoder": {name: file.get_tensor(name) for name in file.keys()}}  # noqa: SIM118


MOST_EXPANDED = 10**6
"""Values of the largest tensor that may repeat fewer, as one does that is expanded."""


def _tensors(content: object) -> Iterator[Any]:
    if hasattr(content, "untyped_storage"):
        yield content
    for one in _parts(content):
        yield from _tensors(one)


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
    """How fields differ from what was declared; None if they do not. Others may be there, too.

    Args:
        content: a dictionary.
        declared: types by the names of fields, such as ``list[float]`` or ``int | None``; those
            that are ``None`` may be missing as well.

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

    Numbers must be finite. Dictionaries may have other fields, and what is None here may be a
    number there.

    Example:
        >>> unlike_ours({"lr": 0.1, "more": 1}, {"lr": 0.2})
        >>> unlike_ours([{"lr": "fast"}], [{"lr": 0.2}])
        '0: lr: it is a str'
    """
    pairs: list[tuple[Any, object, object]] = []
    if isinstance(ours, Mapping) and isinstance(stored, Mapping):
        pairs = [(name, stored[name], one) for name, one in ours.items() if name in stored]
    elif isinstance(ours, list | tuple) and isinstance(stored, list | tuple):
        if len(stored) != len(ours):
            return f"it has {len(stored)} values, not {len(ours)}"
        pairs = [*zip(range(len(ours)), stored, ours, strict=True)]
    elif not _is_like(stored, ours):
        return f"it is a {type(stored).__name__}"
    found = ((name, unlike_ours(one, other)) for name, one, other in pairs)
    return next((f"{name}: {why}" for name, why in found if why is not None), None)


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
    """Whether a value has a type; whole numbers are floats, truth values are no numbers.

    Example:
        >>> conforms({"a": [1, 2.5]}, dict[str, list[float]]), conforms(["a"], list[int])
        (True, False)
    """
    return _check_of(kind)(value)


@cache
def _check_of(kind: Any) -> Callable[[Any], bool]:
    """What tells whether a value has a type."""
    outer, of = get_origin(kind) or kind, get_args(kind)
    if outer in (Union, types.UnionType):
        several = [_check_of(one) for one in of]
        return lambda value: any(check(value) for check in several)
    if kind is Any:
        return lambda value: True
    if kind in (None, types.NoneType):
        return lambda value: value is None
    if outer in (int, float):
        return lambda value: isinstance(value, (int, outer)) and not isinstance(value, bool)
    if not of:
        return lambda value: isinstance(value, outer)
    key, inner = _check_of(of[0]), _check_of(of[-1])

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
"""Bytes of the largest file of settings or results that is read as text."""


def text_of(path: Path) -> str:
    """The text of a file of settings or results.

    Args:
        path: the file, which is UTF-8.

    Raises:
        InputError: for what is no file, such as a pipe, which might never end, or far too large.
        OSError, UnicodeDecodeError: as reading raises them.
    """
    check_regular(path)
    if (size := path.stat().st_size) > LONGEST_TEXT:
        raise InputError(f"{path} has {size:,} bytes, more than any file of its kind")
    return path.read_text(encoding="utf-8")


MOST_NODES = 10**6
"""Values of the largest YAML file, its aliases written out."""


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        InputError: if it cannot be read, is not YAML, or grows beyond bounds by its aliases.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a.yaml").write_text("beta: [1, 2]")
        ...     read_yaml(Path(folder) / "a.yaml")
        {'beta': [1, 2]}
    """
    import yaml

    try:
        found = yaml.safe_load(text_of(path))
        size = _written_out(found, {})
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
        raise InputError(f"{path} has {size:,} values where its aliases (*) are written out")
    return found


def _written_out(value: Any, seen: dict[int, int]) -> int:
    """How many values a nested one has, those counted again that are in several places."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in seen:
        seen[id(value)] = 0  # of one that contains itself
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        seen[id(value)] = 1 + sum(_written_out(one, seen) for one in parts)
    return seen[id(value)]
