"""Experiments on vectors: a residual head, or an encoder of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import check_call, own_part
from gcl_hard.experiments.embedding import Items, batch_bounds
from gcl_hard.experiments.experiment import Parts, Reading, RunContext
from gcl_hard.experiments.exporting import Exportable
from gcl_hard.files.tables import is_table
from gcl_hard.vectors.data import LabelledItems, VectorSet
from gcl_hard.vectors.files import load_vectors, paths
from gcl_hard.vectors.items import EMBEDDED, ItemExperiment
from gcl_hard.vectors.models import (
    ItemModel,
    ScaledEncoder,
    Scaling,
    VectorHead,
    View,
    moments,
)
from gcl_hard.vectors.settings import VectorConfig
from gcl_hard.vectors.views import VectorViews


class VectorInputs:
    """Vectors on a device, and which of them are a training part."""

    def __init__(self, x: Tensor, train: NDArray[np.int64]) -> None:
        self.x, self._train = x, train

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, ids: NDArray[np.int64]) -> Tensor:
        """Some of the vectors, [n, d]."""
        return self.x[torch.from_numpy(ids).to(self.x.device)]

    @property
    def train(self) -> Tensor:
        """Those of the training part."""
        return self.batch(self._train)


class VectorExperiment(ItemExperiment):
    """Experiments on vectors; methods as in ``Experiment``."""

    item: ClassVar[str] = "vector"
    sets: ClassVar[type[LabelledItems]] = VectorSet
    shape: ClassVar[frozenset[str]] = frozenset({"n_features"})
    reading: ClassVar[frozenset[str]] = frozenset({"id"})

    def load(
        self, config: VectorConfig, context: RunContext, user_data: VectorSet | None = None
    ) -> VectorSet:
        """The vectors, which stay on the CPU."""
        if user_data is not None:
            return user_data
        return load_vectors(
            config.dataset, data_dir=context.data_dir, columns=config.columns, label=config.label,
            id=config.id,
        )  # fmt: skip

    def facts(self, data: VectorSet) -> dict[str, Any]:  # type: ignore[override]
        """Sizes, classes, and a digest."""
        return {"n_features": data.n_features, **super().facts(data)}

    def files(self, config: VectorConfig, data_dir: Path | None) -> list[Path]:
        """The file of a set."""
        return paths(config.dataset, data_dir=data_dir)

    def file_facts(self, data: Any) -> dict[str, Any]:
        """The width and the columns of the vectors."""
        if not isinstance(data, VectorSet):
            return super().file_facts(data)
        return {"n_features": data.n_features, "columns": list(data.columns)}

    def inputs(
        self, config: VectorConfig, data: VectorSet, train: NDArray[np.int64], context: RunContext
    ) -> VectorInputs:
        """The vectors on the device."""
        return VectorInputs(torch.from_numpy(data.x).to(context.device), train)

    def shape_of(
        self, config: VectorConfig, data: VectorSet, inputs: VectorInputs
    ) -> dict[str, Any]:
        """The width and the columns of the vectors."""
        return self.file_facts(data)

    def fit_encoder(self, encoder: nn.Module, inputs: VectorInputs) -> None:
        """Fit the scaling."""
        if isinstance(encoder, ScaledEncoder):
            encoder.scaling.to(inputs.x.device).fit(inputs.train)

    def views(self, config: VectorConfig, inputs: VectorInputs) -> View:
        """Random views of vectors."""
        views = VectorViews(config.drop_entries, config.mask_columns, config.noise)
        deviation = moments(inputs.train)[1] if config.noise else 1.0
        return lambda x, generator: views(x, generator, deviation)

    def raw(
        self, config: VectorConfig, data: VectorSet, inputs: VectorInputs
    ) -> NDArray[np.float32]:
        """The vectors, scaled as configured."""
        scaling = Scaling(data.n_features, config.scale).to(inputs.x.device)
        scaling.fit(inputs.train)
        return scaling(inputs.x).cpu().numpy()

    def new_encoder(
        self, config: VectorConfig, saved: Mapping[str, Any], parts: Parts | None
    ) -> nn.Module:
        """An MLP, or another encoder that the configuration names, on scaled vectors."""
        n_features, make = saved["n_features"], own_part(config.encoder, parts)
        if make is not None:
            check_call(make, "encoder(n_features)", n_features)
            encoder = make(n_features)
        else:
            encoder = VectorHead(
                n_features, config.dim, hidden=config.hidden, layers=config.layers,
                dropout=config.dropout,
            )  # fmt: skip
        if config.scale == "stored":
            return encoder
        return ScaledEncoder(Scaling(n_features, config.scale), encoder)

    def items(
        self, encoder: nn.Module, saved: Mapping[str, Any], data: Any, reading: Reading
    ) -> Items:
        """The vectors of a table or an npz file, of a set, or of an array [n, d]."""
        columns, notes = saved.get("columns") or None, tuple[str, ...]()
        if isinstance(data, str | Path) and not is_table(str(data)):
            data = load_vectors(data, data_dir=reading.context.data_dir)
        elif isinstance(data, str | Path) or hasattr(data, "iloc"):
            data = VectorSet.from_table(data, columns=columns, id=reading.id)
        elif not isinstance(data, VectorSet):
            data = VectorSet.from_arrays(data)
        x = data.x
        if columns and data.columns and set(columns) == set(data.columns):
            x = x[:, [data.columns.index(column) for column in columns]]
        elif columns and data.columns:
            raise InputError(
                f"columns of {data.name} are {', '.join(data.columns)}, and the encoder's "
                f"{', '.join(columns)}"
            )
        wanted = saved.get("n_features", x.shape[1])
        if x.shape[1] != wanted:
            raise InputError(
                f"vectors of {data.name} have {x.shape[1]} numbers, and the encoder's {wanted}"
            )
        n, model = reading.batch_size or EMBEDDED, ItemModel(encoder)
        bounds = batch_bounds(len(x), n)
        rows = torch.from_numpy(x).to(reading.context.device)
        return Items(
            {"id": data.names}, data.digest, bounds,
            lambda k: model.embed(rows[bounds[k] : bounds[k + 1]]), notes,
        )  # fmt: skip

    def exportable(self, encoder: nn.Module, saved: Mapping[str, Any]) -> Exportable:
        """Embeddings of vectors."""

        def example(n: int) -> dict[str, Tensor]:
            generator = torch.Generator().manual_seed(n)
            return {"x": torch.randn(n, saved["n_features"], generator=generator)}

        facts = {"columns": saved["columns"]} if saved.get("columns") else {}
        return Exportable(
            encoder, {"x": {0: Dim("vectors", min=1)}}, {"embeddings": "vectors"}, example, facts
        )


EXPERIMENT = VectorExperiment
