"""Pre-training on molecules by contrast of views, also with scaffolds as labels, and the file of
the encoder."""

from __future__ import annotations

import copy
import hashlib
import inspect
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import InputError
from gcl_hard.experiments import hardware
from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.experiments.pretraining import CHECKED, Prepared, Pretraining, drawn
from gcl_hard.experiments.pretraining_settings import PretrainOptions
from gcl_hard.experiments.progress import bar_of
from gcl_hard.experiments.run import Run
from gcl_hard.files.io import file_digest, reading
from gcl_hard.files.stored import load_torch, with_weights
from gcl_hard.graphs.data import GraphBatch, GraphSet
from gcl_hard.graphs.features import vocabulary
from gcl_hard.graphs.models import embed_graphs
from gcl_hard.graphs.protocols import build
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.molecules.data import Molecules, from_tu, scaffolds
from gcl_hard.molecules.encoders import MoleculeGIN
from gcl_hard.molecules.files import MoleculeData, load_molecules
from gcl_hard.molecules.settings import UNTRAINED

GROUP_SIZE = 4
"""Number of molecules of a scaffold that stay together in a batch."""


def describe(options: PretrainOptions) -> Pretraining:
    """The molecules to train an encoder on.

    Raises:
        InputError: for data that are not available, or a single molecule.
    """
    hardware.use_threads(options.threads, 0, 0)
    config = cast("GraphConfig", options.config)
    whole = loaded(
        options.source, data_dir=options.data_dir, jobs=options.jobs, smiles=options.smiles,
        unlabelled=True,
    ).molecules  # fmt: skip
    chosen = drawn(len(whole), options.subset, config.data_seed, "molecules")
    if len(chosen) < 2:
        raise InputError(f"{options.source} has one molecule: contrast takes two or more")
    digest = digest_of_smiles(whole.smiles[chosen.numpy()])

    def prepare(device: torch.device) -> Prepared:
        graphs, groups = whole, None
        if options.label_kind is not None:
            groups = _groups(whole, chosen, options.jobs, key=digest)
            if len(torch.unique(groups[chosen])) < 2:
                raise InputError(
                    f"all {len(chosen)} molecules have one scaffold, and {config.method} contrasts "
                    f"those of different ones: give a method without labels, such as hucl"
                )
            graphs = replace(whole, y=groups, n_classes=int(groups.max()) + 1)
        model = build(config, whole.n_features, options.seed).to(device)

        def batches(epoch: int) -> Iterator[GraphBatch]:
            for ids in order(chosen, groups, config.batch_size, config.data_seed, epoch):
                yield graphs.batch(ids).to(device)

        return Prepared(
            model, batches, math.ceil(len(chosen) / config.batch_size), options.seed,
            lambda: embed_graphs(model.encoder, graphs.batch(chosen[:CHECKED]).to(device)),
            lambda: {
                "encoder": {name: x.cpu() for name, x in model.encoder.state_dict().items()},
                "vocabulary": vocabulary(),
            },
        )  # fmt: skip

    return Pretraining(
        Run(config, options.seed), "molecules", len(chosen), digest, prepare,
        more={"labels": options.label_kind},
    )  # fmt: skip


def order(
    chosen: Tensor, groups: Tensor | None, batch_size: int, seed: int, epoch: int
) -> list[Tensor]:
    """The batches of an epoch: a permutation of the molecules, cut.

    With groups, up to :data:`GROUP_SIZE` of a group follow each other: groups are shuffled, cut
    into pieces of this size, and the pieces shuffled.

    Args:
        chosen: int64 [n], ids of the molecules.
        groups: int64, the group of every id, or None.
        batch_size: molecules in a batch; a single molecule left over joins the last batch.
        seed: seed of the order.
        epoch: number of the epoch; each has its own order.

    Returns:
        Ids, int64.

    Example:
        >>> ids = order(torch.arange(6), torch.tensor([0, 1, 0, 1, 0, 1]), 3, seed=0, epoch=1)
        >>> [len({int(i) % 2 for i in batch}) for batch in ids]
        [1, 1]
    """
    generator = seeded(seed, epoch)
    ids = chosen[torch.randperm(len(chosen), generator=generator)]
    if groups is not None:
        labels = groups[ids]
        by_group = torch.argsort(labels, stable=True)
        ids, labels = ids[by_group], labels[by_group]
        starts = torch.searchsorted(labels, labels)
        piece = (torch.arange(len(ids)) - starts) // GROUP_SIZE
        key = torch.unique(torch.stack([labels, piece]), dim=1, return_inverse=True)[1]
        shuffled = torch.randperm(int(key.max()) + 1, generator=generator)
        ids = ids[torch.argsort(shuffled[key], stable=True)]
    batches = [*torch.split(ids, batch_size)]
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def loaded(name: str, **options: Any) -> MoleculeData:
    """A set by :func:`load_molecules`, with progress, and a line on SMILES that are left out."""
    with bar_of("parsing all, once", " SMILES") as bar:
        data = load_molecules(name, progress=bar.update, **options)
    if left_out := data.molecules.left_out(data.molecules.name):
        print(left_out, file=sys.stderr)
    return data


def digest_of_smiles(smiles: NDArray[np.object_]) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of SMILES, which are bytes objects."""
    digest = hashlib.sha256()
    for part in np.array_split(smiles, max(1, math.ceil(len(smiles) / 100_000))):
        digest.update(b"\n".join(part))
    return digest.hexdigest()[:16]


def _groups(whole: Molecules, chosen: Tensor, jobs: int, key: str) -> Tensor:
    """Scaffolds as whole numbers, −1 for molecules not chosen; one without a scaffold is alone."""
    with bar_of("scaffolds", " molecules", len(chosen)) as bar:
        scaffold_names = scaffolds(
            whole.smiles[chosen.numpy()], chirality=True, jobs=jobs, progress=bar.update, key=key
        )  # fmt: skip
    names = [name or f"acyclic {i}" for i, name in enumerate(scaffold_names)]
    groups = torch.full((len(whole),), -1)
    groups[chosen] = torch.from_numpy(np.unique(names, return_inverse=True)[1])
    return groups


ARGUMENTS = inspect.signature(MoleculeGIN).parameters
USUAL_SHAPE = {name: argument.default for name, argument in ARGUMENTS.items()}
"""The default arguments of :class:`MoleculeGIN`."""


class Pretrained(NamedTuple):
    """A pre-trained encoder.

    Attributes:
        encoder: on the CPU, in evaluation mode; see :func:`gcl_hard.graphs.embed_graphs`.
        vocabulary: number of codes of each field of ``atoms`` and of ``bonds``.
        about: settings, data and losses of its training.
    """

    encoder: MoleculeGIN
    vocabulary: dict[str, dict[str, int]]
    about: dict[str, Any]

    @property
    def shape(self) -> dict[str, Any]:
        """Arguments of its :class:`MoleculeGIN`: ``MoleculeGIN(**shape)`` has new weights."""
        return _shape(self.about)


def load_pretrained(path: str | Path) -> Pretrained:
    """An encoder that ``python -m gcl_hard.pretrain`` saved.

    Args:
        path: file NAME.pt; nothing in it is executed (``weights_only``).

    Returns:
        The encoder with its vocabulary.

    Raises:
        InputError: for a file that holds no encoder, or an encoder of another vocabulary.

    Example:
        >>> load_pretrained("missing.pt")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read missing.pt: No such file or directory
    """
    saved = load_torch(Path(path), "a pre-trained encoder", {
        "vocabulary": dict[str, dict[str, int]], "about": dict[str, Any],
        "encoder": dict[str, Tensor],
    })  # fmt: skip
    with reading(Path(path), "a pre-trained encoder"):
        codes, shape = saved["vocabulary"], _shape(saved["about"])
        int(saved["about"]["n"])  # molecules that it was trained on, which scores tell
    if codes != (ours := vocabulary()):
        others = [f"{k} {codes.get(k)}, here {ours[k]}" for k in ours if codes.get(k) != ours[k]]
        raise InputError(f"{path} has other codes, {'; '.join(others)}: train it again")
    make = partial(MoleculeGIN, **shape)
    encoder = with_weights(Path(path), saved["encoder"], make)
    return Pretrained(cast("MoleculeGIN", encoder), codes, saved["about"])


def _shape(about: dict[str, Any]) -> dict[str, Any]:
    config = about["run"]["config"]
    return {name: config[name] for name in USUAL_SHAPE}


@dataclass(frozen=True, eq=False)
class FileEncoder:
    """What makes copies of the encoder in a file of ``gcl_hard.pretrain``.

    Attributes:
        encoder: the encoder.
        n: number of molecules that it was pre-trained on.
    """

    encoder: nn.Module
    n: int

    def __call__(self, n_features: int) -> nn.Module:
        """A copy of the encoder."""
        return copy.deepcopy(self.encoder)


def pretrained_part(name: str, digits: int = 8) -> tuple[str, EncoderMaker]:
    """The encoder of a file of ``gcl_hard.pretrain``: its name in configurations, which has so many
    digits of the file's digest but not its folder, and what makes copies of it.

    Raises:
        InputError: if there is no such file, or it holds none.
    """
    path = Path(name.partition("@")[0])
    pretrained = load_pretrained(path)
    key = f"{path.name}@{file_digest(path)[:digits]}"
    if "@" in name and name != key:
        raise InputError(f"{path} has changed since it was {name}: it is {key} now")
    return key, FileEncoder(pretrained.encoder, int(pretrained.about["n"]))


def shape_of(path: str) -> str:
    """``untrained``, with the arguments of a file's encoder that differ from the defaults."""
    shape = load_pretrained(path).shape
    unusual = [f"{name}={value}" for name, value in shape.items() if value != USUAL_SHAPE[name]]
    return f"{UNTRAINED}:{'+'.join(unusual)}" if unusual else UNTRAINED


def coded(graphs: GraphSet) -> GraphSet:
    """Graphs of another domain with the codes that these encoders read: :func:`from_tu`."""
    return from_tu(graphs)
