"""What is known of a data set without reading it: its name, its files, what it is cached under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gcl_hard.experiments.config import GraphConfig, ImageConfig, RunConfig
from gcl_hard.experiments.experiment import DataFiles
from gcl_hard.graphs import tudataset
from gcl_hard.images import datasets


class GraphFiles:
    """Sets of graphs; methods as in ``DataFiles``."""

    def canonical_name(self, name: str) -> str:
        """As the TUDataset site spells it."""
        return tudataset.canonical_name(name)

    def data_key(self, config: GraphConfig) -> tuple[str, ...]:
        """Data set, kind of features, and encodings."""
        return config.dataset, config.features, *(config.encodings or ())

    def files(self, config: GraphConfig, data_dir: Path | None) -> list[Path]:
        """The archive, or the files of an unpacked one."""
        path = tudataset.locate(config.dataset, data_dir=data_dir).resolve()
        return sorted(path.rglob("*")) if path.is_dir() else [path]

    def resolved(self, config: GraphConfig, facts: dict[str, Any]) -> dict[str, Any]:
        """Nothing."""
        return {}


class ImageFiles:
    """Sets of images; methods as in ``DataFiles``."""

    def canonical_name(self, name: str) -> str:
        """As the set is commonly spelt."""
        return datasets.canonical_name(name)

    def data_key(self, config: ImageConfig) -> tuple[str, str, str, int | None]:
        """Data set, splits and subset."""
        return config.dataset, config.pretrain_split, config.probe_split, config.subset

    def files(self, config: ImageConfig, data_dir: Path | None) -> list[Path]:
        """The archive, or the first files of a folder: of many thousands enough to tell."""
        path = datasets.locate(config.dataset, data_dir=data_dir)
        if path is None:
            return []
        if path.is_dir():
            parts = (path / "train", path / "val", path / "val" / "val_annotations.txt")
            return sorted(
                [*(f for f in path.iterdir() if f.is_file()), *filter(Path.exists, parts)]
            )
        return [path]

    def resolved(self, config: ImageConfig, facts: dict[str, Any]) -> dict[str, Any]:
        """The size of views and the stem that goes with it."""
        size = config.size or int(facts["side"])
        if config.is_baseline and config.method != "untrained":
            return {"size": size}
        return {"size": size, "stem": config.stem_at(size)}


def files_of(config: RunConfig | type[RunConfig]) -> DataFiles[Any]:
    """Names and files of a configuration's domain; nothing that trains is imported.

    Example:
        >>> files_of(GraphConfig).canonical_name("ptc")
        'PTC_MR'
    """
    return GraphFiles() if config.domain == "graphs" else ImageFiles()
