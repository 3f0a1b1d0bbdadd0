"""User-supplied parts and the digests that identify them."""

from __future__ import annotations

import dis
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.experiment import Parts
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, is_own, is_pretrained, known

EncoderMaker = Callable[..., nn.Module]
"""Makes an encoder with an ``out_dim`` for a number of node features; called with ``edge_dim``
too, the number of edge features or None, if it has such a parameter."""

FRAMEWORKS = frozenset({"torch", "torch_geometric", "torchvision"})
"""Packages of which a part is known by its name and settings."""

PACKAGE = __name__.partition(".")[0]
STANDARD = Path(sysconfig.get_path("stdlib")).resolve()
"""Folder of Python's own modules."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Names of folders of installed packages."""
PLAIN = (
    bool, int, float, complex, str, bytes, range, slice, np.generic, np.dtype, torch.dtype,
    torch.device,
)  # fmt: skip
"""Types of values whose ``repr`` is all that they are."""
UNREAD = frozenset({
    "__annotations__", "__annotate__", "__annotate_func__", "__conditional_annotations__",
    "__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__",
    "__static_attributes__", "__weakref__",
})  # fmt: skip
"""Attributes of a class that do not change what it computes."""


def code_digest(made_by: Any) -> str:
    """Digest of what a callable computes: its code, the user's own code it calls, its settings.

    Followed are base classes, global names and closures, constants, and the arguments of a
    ``functools.partial``. Of installed packages only names count. Compiled code is read, so that a
    notebook or a prompt will do; comments, layout and docstrings change nothing, another minor
    version of Python does.

    Args:
        made_by: a class, a function, or anything callable.

    Returns:
        Eight hexadecimal digits.

    Example:
        >>> code_digest(lambda n: n + 1) == code_digest(lambda m: m + 1)
        True
        >>> code_digest(lambda n: n + 1) == code_digest(lambda n: n + 2)
        False
    """
    digest = hashlib.sha256()
    for part in _Parts(made_by):
        digest.update(f"{part}\n".encode())
    return digest.hexdigest()[:8]


class _Parts:
    """Everything that decides what a callable computes, as text, in a fixed order."""

    def __init__(self, first: Any) -> None:
        self._first = first
        root = str(getattr(_unwrapped(first), "__module__", None)).partition(".")[0]
        self._root = "" if root in FRAMEWORKS else root
        self._seen: dict[int, Any] = {}  # kept, so that no id is used twice

    def __iter__(self) -> Iterator[str]:
        return self._walk(self._first)

    def _walk(self, value: Any) -> Iterator[str]:
        if value is None or isinstance(value, PLAIN):
            yield repr(value)
            return
        if id(value) in self._seen:
            yield f"again {list(self._seen).index(id(value))}"
            return
        self._seen[id(value)] = value
        if isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, MethodType):
            yield from self._several((value.__func__, value.__self__))
        elif isinstance(value, partial):
            yield from self._several((value.func, value.args, value.keywords))
        elif isinstance(value, Tensor | np.ndarray):
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
            yield f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        elif isinstance(value, Mapping):
            yield from self._several(sorted(value.items(), key=lambda item: str(item[0])))
        elif isinstance(value, tuple | list):
            yield from self._several(value)
        elif isinstance(value, set | frozenset):
            yield repr(sorted(value, key=repr))
        else:
            yield from self._named(value)

    def _several(self, values: Any) -> Iterator[str]:
        yield f"{len(values)}:"
        for value in values:
            yield from self._walk(value)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        constants = code.co_consts
        documented = constants and isinstance(constants[0], str) and code.co_flags & CO_OPTIMIZED
        yield from self._several(constants[1:] if documented else constants)
        yield repr(code.co_names)

    def _named(self, value: Any) -> Iterator[str]:
        """A module, class, function or object: by name if installed, else whole."""
        if isinstance(value, ModuleType):
            yield value.__name__
            if self._is_users(value.__name__):
                yield from self._members(value, module=value.__name__)
            return
        if isinstance(value, BuiltinFunctionType | np.ufunc):
            yield f"{getattr(value, '__module__', None)}.{value.__name__} {type(value).__name__}"
            return
        kind = value if isinstance(value, type | FunctionType) else type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, property):
            yield from self._several((value.fget, value.fset))
        elif isinstance(value, staticmethod | classmethod):
            yield from self._walk(value.__func__)
        elif not self._is_users(kind.__module__) and not isinstance(value, nn.Module):
            if kind is type(value) and kind.__module__.partition(".")[0] in FRAMEWORKS:
                yield from self._walk(getattr(value, "__dict__", None))
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._several(value.__bases__)
            yield from self._members(value)
        else:
            yield from self._walk(kind)
            yield from self._walk(_state(value))

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield from self._walk(function.__code__)
        yield from self._several((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            yield from self._walk(cell.cell_contents)
        for name in sorted(_globals_of(function.__code__)):
            if name in function.__globals__:
                yield name
                yield from self._walk(function.__globals__[name])

    def _members(self, owner: Any, module: str | None = None) -> Iterator[str]:
        """Attributes of a class, or what a module defines itself."""
        for name, value in sorted(vars(owner).items()):
            if name in UNREAD:
                continue
            constant = isinstance(value, PLAIN) and not name.startswith("__")
            if module is not None and not constant and getattr(value, "__module__", None) != module:
                continue
            yield name
            yield from self._walk(value)

    def _is_users(self, module: str | None) -> bool:
        """Whether a module is the user's: not installed, or of the package that is digested."""
        root = (module or "").partition(".")[0]
        if root == self._root:
            return True
        if root in (PACKAGE, *FRAMEWORKS, *sys.builtin_module_names):
            return False
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        path = None if file is None else Path(file).resolve()
        if path is None:
            return True
        return not (path.is_relative_to(STANDARD) or INSTALLED & {*path.parts})


def _state(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    slotted = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return slotted | getattr(value, "__dict__", {})


def _globals_of(code: CodeType) -> set[str]:
    """Names that code, and the code inside it, looks up outside."""
    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return names.union(*map(_globals_of, inner))


def name_of(made_by: Callable[..., Any]) -> str:
    """Name of a class, a function or another callable, for messages and files."""
    made_by = _unwrapped(made_by)
    return str(getattr(made_by, "__name__", type(made_by).__name__))


def _unwrapped(made_by: Any) -> Any:
    """What a ``functools.partial`` calls in the end."""
    while isinstance(made_by, partial):
        made_by = made_by.func
    return made_by


def check_maker(make: Any) -> None:
    """Refuse what makes no encoders, such as one that is made already.

    Raises:
        InputError: says what would be accepted.
    """
    if isinstance(make, nn.Module) or not callable(make):
        raise InputError(
            f"encoder is called as encoder(n_features, …) for every training, so give the class or "
            f"a function, got {make!r}"[:300]
        )


def check_call(function: Callable[..., Any], call: str, *values: Any, **named: Any) -> None:
    """Check that a function takes some arguments.

    Args:
        function: the user's.
        call: how it is called, for the message.
        *values: the arguments.
        **named: the arguments by name.

    Raises:
        InputError: if it does not; says why.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # from C code
        return
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        raise InputError(
            f"{name_of(function)} must accept the call {call}, and does not: {error}; every other "
            f"argument needs a default"
        ) from error


def make_encoder(
    make: EncoderMaker, n_features: int, edge_dim: int | None, **options: Any
) -> nn.Module:
    """A new encoder made by the user's code, with ``edge_dim`` if the maker takes it.

    Raises:
        InputError: if it takes other arguments.
    """
    options = edge_argument(make, edge_dim) | options
    check_call(make, "encoder(n_features)", n_features, **options)
    return make(n_features, **options)


def own_part(name: str, parts: Parts | None) -> Callable[..., Any] | None:
    """What a configuration names, if it is the user's own.

    Raises:
        InputError: if it is not among the given parts.
    """
    if not is_own(name):
        return None
    if parts is None or name not in parts:
        raise InputError(
            f"{name} is your own part, and its code is missing: give it to gcl_hard.evaluate, or "
            f"to the command as module:Name"
        )
    return parts[name]


def edge_argument(make: EncoderMaker, edge_dim: int | None) -> dict[str, Any]:
    """The argument ``edge_dim``, if a maker takes it."""
    with suppress(TypeError, ValueError):  # from C code
        if "edge_dim" in inspect.signature(make).parameters:
            return {"edge_dim": edge_dim}
    return {}


def named_object(name: str, flag: str) -> Any:
    """What ``module:Name`` or ``module`` names; those of the working folder are found as well.

    Importing runs the module, so it is said, and only names that the user has given come here: on
    the command line, in a file of settings, as an argument, or in a file that is trusted.

    Raises:
        InputError: if there is no such thing, or its module fails; says why.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if module not in sys.modules:
        print(f"importing {module}, for --{flag} {name}", file=sys.stderr)
    try:
        named = import_module(module)
        for part in filter(None, attribute.split(".")):
            named = getattr(named, part)
    except Exception as error:  # from the user's code, which may raise anything
        without = isinstance(error, ModuleNotFoundError | TypeError) and module.endswith(".py")
        hint = f"; give the name of a module in {here}, without .py" if without else ""
        raise InputError(f"--{flag} {name}: {type(error).__name__}: {error}{hint}") from error
    return named


def is_one_graph(data: Any) -> bool:
    """Whether data are one graph of PyTorch Geometric or NetworkX, and no batch of several."""
    return hasattr(data, "is_directed") and getattr(data, "batch", None) is None


@dataclass
class UserParts:
    """The user's own parts and graphs in a command.

    Attributes:
        parts: encoders and augmentations, by the names that configurations have for them.
        graphs: the user's own data sets, by name.
        names: what parts and data sets turned out to be called, by what they were named.
    """

    parts: dict[str, Callable[..., Any]] = field(default_factory=dict)
    graphs: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, part: Callable[..., Any], name: str | None = None) -> str:
        """Add an encoder or an augmentation; returns its name in configurations.

        Args:
            part: the encoder's class, or a function.
            name: ``module:Name``, where it was named so.
        """
        key = f"{name or name_of(part)}@{code_digest(part)}"
        self.parts[key] = part
        return key

    def add_file(self, name: str, path: str, **options: Any) -> None:
        """Add the encoder in a file of ``gcl_hard.pretrain``, which a command named so."""
        self.names[name], make = lent_encoders().pretrained_part(path, **options)
        self.parts[self.names[name]] = make

    def resolved(self, config: RunConfig) -> RunConfig:
        """A configuration with its ``module:Name``s imported, called by what they turned out to be.

        Raises:
            InputError: if there are no such things, or two sets have one name.
        """
        changed = experiment_of(config).user_names(config, self)
        for name, declared in known(type(config)).items():
            value = getattr(config, name)
            if declared.setting.custom and isinstance(value, tuple):
                changed[name] = tuple(self._part(part, name) for part in value)
            elif declared.setting.custom and value is not None:
                changed[name] = self._part(value, name)
        changed = {name: new for name, new in changed.items() if new != getattr(config, name)}
        return replace(config, **changed) if changed else config

    def resolved_run(self, run: Run) -> Run:
        """A run with the file of its seed, where its configuration names one by ``{seed}``."""
        config = experiment_of(run.config).of_seed(run.config, run.seed)
        return run if config == run.config else run._replace(config=self.resolved(config))

    def _part(self, name: str, flag: str) -> str:
        """The name in configurations of a part that a command names."""
        if not is_own(name) or name in self.parts:
            return self.names.get(name, name)
        if name not in self.names and is_pretrained(name):
            self.add_file(name, name)
        if name not in self.names:
            named = name.partition("@")[0]
            if ":" not in named:
                raise InputError(
                    f"{name} was given from Python: give it so again, to gcl_hard.evaluate, or "
                    f"give --{flag} module:{named}"
                )
            part = named_object(named, flag)
            if flag == "encoder":
                check_maker(part)
            key = self.add(part, named)
            if name not in (named, key):
                raise InputError(f"the code of {named} has changed: it is {key} now")
            self.names[name] = key
        return self.names[name]
