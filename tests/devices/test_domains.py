"""Training steps of other domains on a GPU: images, nodes, links, molecules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from gcl_hard import fit
from gcl_hard.experiments.experiment import silent
from gcl_hard.experiments.run import Run
from gcl_hard.graphs import TwoView
from gcl_hard.images import ImageContrast, Split, ViewPairs, ViewRecipe, Views
from gcl_hard.links.data import LinkSet
from gcl_hard.links.models import DistMult, LinkContrast
from gcl_hard.losses.queue import Queue
from gcl_hard.molecules import MoleculeGIN, from_smiles
from gcl_hard.nodes import NodeSet
from gcl_hard.nodes.encoders import GCN
from gcl_hard.nodes.models import NodeContrast
from gcl_hard.vectors.experiment import VectorExperiment
from gcl_hard.vectors.settings import VectorConfig
from tests.devices.pretended import Record, pretended
from tests.vectors.sets import blobs, context

GPU = "cuda"


def more(run: Callable[[int], object]) -> Record:
    """What two epochs more ask of a GPU; ``run`` takes their number."""
    records = []
    for epochs in (1, 3):
        with pretended() as record:
            run(epochs)
        records.append(Counter(record))
    return Record((records[1] - records[0]).elements())


def places(asked: Record, kind: str) -> set[str]:
    return {where.partition(":")[0] for _, where in asked.tally(kind)}


@pytest.mark.parametrize("queue", [None, 16])
def test_a_step_of_images_waits_for_nothing(queue: int | None) -> None:
    drawn = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 3, 8, 8), generator=drawn, dtype=torch.uint8)
    split = Split(images, torch.arange(24) % 3)
    views = Views(ViewRecipe(), size=8, mean=(0.5,) * 3, std=(0.5,) * 3)

    def run(epochs: int) -> None:
        torch.manual_seed(0)
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, 8))
        model = ImageContrast(
            encoder, 8, method="hscl", head=nn.Linear(8, 8),
            momentum=None if queue is None else 0.9,
            queue=None if queue is None else Queue(queue, 8),
        )  # fmt: skip
        pairs = ViewPairs(split.to(GPU), views.to(GPU), batch_size=8, device=GPU)
        fit(model, pairs, epochs=epochs, lr=0.01, device=GPU)

    asked = more(run)
    assert asked.count("wait") == 2, asked.tally("wait")  # the losses of each epoch
    assert places(asked, "to device") <= {
        "core/seeds.py",
        "images/augment.py",
        "images/batching.py",
    }


@pytest.mark.parametrize("anchors", [None, 8])
def test_a_step_of_nodes_waits_where_edges_are_dropped(anchors: int | None) -> None:
    drawn = torch.Generator().manual_seed(0)
    edges = torch.randint(30, (2, 90), generator=drawn)
    nodes = NodeSet("made", torch.randn(30, 5, generator=drawn), edges, torch.arange(30) % 3)

    def run(epochs: int) -> None:
        torch.manual_seed(0)
        model = NodeContrast(GCN(5, dim=4, layers=2), method="hscl", anchors=anchors)
        fit(model, nodes.to(GPU), epochs=epochs, lr=0.01, device=GPU)

    asked = more(run)
    assert places(asked, "wait") <= {
        "nodes/views.py", "nodes/encoders.py", "training/loop.py",
    }  # fmt: skip
    assert sum(where.startswith("training") for _, where in asked.tally("wait").elements()) == 2


@pytest.mark.parametrize("method", ["ucl", "hscl"])
def test_a_step_of_links_waits_where_candidates_are_drawn(method: str) -> None:
    every = [(a, r, b) for a in "abcdefg" for r in "rs" for b in "abcdefg"]
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(0)).tolist()
    links = LinkSet.from_triples([every[k] for k in order[:40]])

    def run(epochs: int) -> None:
        torch.manual_seed(0)
        moved = links.to(GPU)
        model = LinkContrast(
            DistMult(moved.n_entities, moved.n_relations, dim=4), moved, method=method, candidates=6
        )
        fit(model, moved, epochs=epochs, batch_size=40, lr=0.01, device=GPU)

    asked = more(run)
    assert places(asked, "wait") <= {
        "links/models.py", "links/data.py", "training/loop.py", "graphs/pointers.py",
    }  # fmt: skip


def test_a_step_of_molecules() -> None:
    molecules = from_smiles(["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CCCC"] * 4)

    def run(epochs: int) -> None:
        torch.manual_seed(0)
        model = TwoView(MoleculeGIN(8, 2), method="ucl", augmentations=["mask-attributes"])
        fit(model, molecules.to(GPU), epochs=epochs, batch_size=12, lr=0.01, device=GPU)

    asked = more(run)
    assert places(asked, "wait") <= {
        "graphs/augment.py", "molecules/data.py", "training/loop.py", "graphs/data.py",
    }  # fmt: skip


def test_a_step_of_vectors_waits_for_nothing(tmp_path: Path) -> None:
    vectors = blobs()
    config = VectorConfig("blobs", "hscl", hidden=4, noise=0.1, batch_size=20, splits=1)

    def run(epochs: int) -> None:
        where = replace(context(tmp_path).without_checkpoints(), device=GPU)
        trained = Run(replace(config, epochs=epochs), 0)
        assert len([*VectorExperiment().train([trained], vectors, where, silent)]) == 1

    asked = more(run)
    assert asked.count("wait") == 2, asked.tally("wait")  # the losses of each epoch
