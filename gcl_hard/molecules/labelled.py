"""A labelled set of molecules: its splits, and the features that its runs share."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import ThreeWaySplit, scaffold_split
from gcl_hard.evaluation.transfer import LARGE
from gcl_hard.experiments.run import Run
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.molecules.data import fingerprints, molecule, rdkit, scaffolds, tanimoto
from gcl_hard.molecules.files import MoleculeData
from gcl_hard.molecules.settings import CHIRALITY, MoleculeConfig

DRAWN = 0.1
"""Share of a given training part that is set aside for validation."""


class Labelled:
    """A labelled set with scaffolds and fingerprints that its runs share."""

    def __init__(self, data: MoleculeData) -> None:
        self.data, self.molecules = data, data.molecules
        self._splits: dict[str, ThreeWaySplit] = {}
        self.y = data.molecules.y.numpy().astype(np.float64)
        if data.kind == "unlabelled":
            raise InputError(f"{data.molecules.name} has no targets and cannot be scored")
        if data.kind == "values" and self.y.ndim > 1:
            tasks = ", ".join(data.molecules.tasks)
            raise InputError(
                f"{data.molecules.name} has several columns of numbers: name one of {tasks} in "
                f"targets"
            )
        if data.kind == "classes" and data.molecules.n_classes != 2:
            raise InputError(
                f"{data.molecules.name} has {data.molecules.n_classes} classes; expected two"
            )

    def split_name(self, config: MoleculeConfig) -> str:
        """The split of a configuration; by default the given one, or that by scaffolds."""
        return config.split or ("scaffold" if self.data.test is None else "given")

    def probe_of(self, config: MoleculeConfig) -> str:
        """The probe of a configuration; by default linear if the set is too large for kernels."""
        large = len(self.split(self.split_name(config)).train) * self.y[:1].size > LARGE
        return config.probe or ("linear" if large else "kernel")

    @property
    def classes(self) -> bool:
        """Whether targets are 0 and 1."""
        return self.data.kind != "values"

    @cached_property
    def fingerprints(self) -> Any:
        """ECFP, uint8 [n, bits]."""
        return fingerprints(self.molecules)

    @cached_property
    def counts(self) -> Any:
        """Log of 1 + the number of atoms and bonds with each code, [n, codes]."""
        return np.log1p(self.molecules.counts())

    @cached_property
    def seen_tests(self) -> int:
        """Number of the given split's test molecules that are also in its other parts."""
        train, valid, test = self.split("given")
        names = [*map(rdkit().MolToSmiles, map(molecule, self.molecules.smiles))]
        seen = {names[i] for i in (*train, *valid)}
        return sum(names[i] in seen for i in test)

    def split_of(self, run: Run) -> ThreeWaySplit:
        """The parts of a run, with the share of the training part that it uses, drawn by its seed.

        A larger share contains a smaller one. An inner run is tested on the validation part.
        """
        config = cast("MoleculeConfig", run.config)
        split = self.split(self.split_name(config))
        split = split._replace(test=split.valid) if run.inner else split
        drawn = np.random.default_rng(run.seed).permutation(split.train)
        n = max(1, round(config.train_share * len(drawn)))
        return split if n == len(drawn) else split._replace(train=np.sort(drawn[:n]))

    def split(self, name: str) -> ThreeWaySplit:
        """The parts of a split by its name."""
        if name not in self._splits:
            self._splits[name] = self._split(name)
        return self._splits[name]

    def _split(self, name: str) -> ThreeWaySplit:
        if name != "given":
            order = name.removesuffix(CHIRALITY)
            frameworks = scaffolds(self.molecules.smiles, chirality=order != name)
            seed = None if order == "scaffold" else int(order.removeprefix("random-"))
            return scaffold_split(frameworks, seed=seed)
        test, valid = self.data.test, self.data.valid
        if test is None or not test.any() or (test if valid is None else test | valid).all():
            raise InputError(
                f"{self.molecules.name}: its column split names no test or no training molecules"
            )
        if valid is not None:
            return ThreeWaySplit(*map(np.flatnonzero, (~(test | valid), valid, test)))
        train = np.random.default_rng(0).permutation(np.flatnonzero(~test))
        n = max(1, round(DRAWN * len(train)))
        return ThreeWaySplit(np.sort(train[n:]), np.sort(train[:n]), np.flatnonzero(test))


class Kernels:
    """Kernels of all pairs of molecules; gigabytes for a large set."""

    def __init__(self, labelled: Labelled) -> None:
        self._labelled = labelled

    @cached_property
    def tanimoto(self) -> Any:
        """Similarities of fingerprints, [n, n]."""
        return tanimoto(self._labelled.fingerprints, self._labelled.fingerprints)

    @cached_property
    def wl(self) -> Any:
        """The Weisfeiler-Lehman kernel, [n, n]."""
        molecules = self._labelled.molecules
        return wl_kernel(replace(molecules, x=molecules.x.float()), optimal_assignment=False)


@lru_cache(maxsize=1)
def kernels_of(labelled: Labelled) -> Kernels:
    """The kernels of a set, kept until those of another set are asked for."""
    return Kernels(labelled)
