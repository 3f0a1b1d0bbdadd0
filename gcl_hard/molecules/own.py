"""The user's own tables of molecules, and files of encoders for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.files.io import file_digest
from gcl_hard.molecules.settings import SEED, UNTRAINED, is_table

if TYPE_CHECKING:
    from gcl_hard.experiments.custom import UserParts


class OwnTable(NamedTuple):
    """A table of molecules: its path, and the digest of its file at the start of the command."""

    path: str
    digest: str


def named(config: RunConfig, parts: UserParts) -> dict[str, Any]:
    """The names of the set and of the encoder, with digests of their files.

    Raises:
        InputError: if there are no such files, or two sets have the same name.
    """
    return {"dataset": _table(config.dataset, parts), "encoder": _file(config, parts)}


def _table(name: str, parts: UserParts) -> str:
    """The name of a set of molecules; ``NAME@digest`` for a table."""
    if not is_table(name) or name in parts.graphs or name in parts.names:
        return parts.names.get(name, name)
    table = OwnTable(name, file_digest(name))
    key = f"{Path(name).name.partition('.')[0]}@{table.digest}"
    stem = key.partition("@")[0]
    for other, known in parts.graphs.items():
        if isinstance(known, OwnTable) and other.partition("@")[0] == stem:
            raise InputError(
                f"{known.path} and {name} are both named {stem}, and results are told apart by "
                f"this name: rename one"
            )
    parts.graphs[key], parts.names[name] = table, key
    return key


def _file(config: RunConfig, parts: UserParts) -> str:
    """The name of an encoder of molecules; with its shape if its weights are new."""
    name: str = config.encoder
    if name in {UNTRAINED, *parts.parts, *parts.names} or config.shape or SEED in name:
        return parts.names.get(name, name)
    weights, _, path = name.rpartition(":")
    if not Path(path.partition("@")[0]).is_file():
        raise InputError(
            f"{path} is not there: an encoder is {UNTRAINED}, or a file of python -m "
            f"gcl_hard.pretrain"
        )
    if weights == UNTRAINED:
        parts.names[name] = lent_encoders().shape_of(path)
    else:
        parts.add_file(name, path, digits=16)
    return parts.names[name]
