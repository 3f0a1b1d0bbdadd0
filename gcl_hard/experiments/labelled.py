"""A labelled set of molecules: its splits, and what all runs on it share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import ScaffoldSplit, scaffold_split
from gcl_hard.evaluation.transfer import LARGE
from gcl_hard.graphs import MoleculeData, fingerprints, scaffolds, tanimoto
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.settings.molecules import CHIRALITY, TransferRun

DRAWN = 0.1
"""Share of a given training part that is drawn for validation."""


class Labelled:
    """A labelled set with what several runs share: scaffolds, fingerprints, kernels."""

    def __init__(self, data: MoleculeData) -> None:
        self.data, self.molecules = data, data.molecules
        self._splits: dict[str, ScaffoldSplit] = {}
        self.y = data.molecules.y.numpy().astype(np.float64)
        if data.kind == "unlabelled":
            raise InputError(f"{data.molecules.name} has no targets to be scored by")
        if data.kind == "values" and self.y.ndim > 1:
            tasks = ", ".join(data.molecules.tasks)
            raise InputError(
                f"{data.molecules.name} has several columns of numbers: name one of {tasks} by "
                f"targets"
            )
        if data.kind == "classes" and data.molecules.n_classes != 2:
            raise InputError(
                f"{data.molecules.name} has {data.molecules.n_classes} classes: transfer scores two"
            )

    def probe_of(self, run: TransferRun) -> str:
        """The probe of a run; if none is named, linear for sets too large for kernel machines."""
        large = len(self.split(run.split).train) * self.y[:1].size > LARGE
        return run.probe or ("linear" if large else "kernel")

    @property
    def classes(self) -> bool:
        """Whether targets are 0 and 1."""
        return self.data.kind != "values"

    @cached_property
    def fingerprints(self) -> Any:
        """ECFP, uint8 [n, bits]."""
        return fingerprints(self.molecules)

    @cached_property
    def tanimoto(self) -> Any:
        """Their similarities, [n, n]."""
        return tanimoto(self.fingerprints, self.fingerprints)

    @cached_property
    def counts(self) -> Any:
        """Log of one more than the number of atoms and bonds of each code, [n, codes]."""
        return np.log1p(self.molecules.counts())

    @cached_property
    def wl(self) -> Any:
        """The Weisfeiler-Lehman kernel, [n, n]."""
        graphs = replace(self.molecules, x=self.molecules.x.float())
        return wl_kernel(graphs, optimal_assignment=False)

    def split_of(self, run: TransferRun) -> ScaffoldSplit:
        """The parts of a run: of its training part the share that it uses, drawn by its seed; a
        larger share holds a smaller one.
        """
        split = self.split(run.split)
        drawn = np.random.default_rng(run.seed).permutation(split.train)
        n = max(1, round(run.train_share * len(drawn)))
        return split if n == len(drawn) else split._replace(train=np.sort(drawn[:n]))

    def split(self, name: str) -> ScaffoldSplit:
        """The parts of a split by its name."""
        if name not in self._splits:
            self._splits[name] = self._split(name)
        return self._splits[name]

    def _split(self, name: str) -> ScaffoldSplit:
        if name != "given":
            order = name.removesuffix(CHIRALITY)
            found = scaffolds(self.molecules.smiles, chirality=order != name)
            seed = None if order == "scaffold" else int(order.removeprefix("random-"))
            return scaffold_split(found, seed=seed)
        test = self.data.test
        if self.data.unread_split is not None:
            raise InputError(f"{self.data.unread_split}: correct it, or choose another split")
        if test is None or not test.any() or test.all():
            raise InputError(
                f"{self.molecules.name}: its column split names no test, or nothing else; it says "
                f"test, train, and valid where there is such a part"
            )
        if (valid := self.data.valid) is not None:
            rest = np.flatnonzero(~(test | valid))
            if not len(rest):
                raise InputError(f"{self.molecules.name}: its column split leaves none to train on")
            return ScaffoldSplit(rest, np.flatnonzero(valid), np.flatnonzero(test))
        train = np.random.default_rng(0).permutation(np.flatnonzero(~test))
        n = max(1, round(DRAWN * len(train)))
        return ScaffoldSplit(np.sort(train[n:]), np.sort(train[:n]), np.flatnonzero(test))
