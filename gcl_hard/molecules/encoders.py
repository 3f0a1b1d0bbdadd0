"""Encoders of molecules, whose atoms and bonds are integer codes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError
from gcl_hard.graphs.encoders import GIN, JumpingKnowledge, Readout
from gcl_hard.graphs.features import ATOMS, BONDS


class Codes(nn.Module):
    r"""Sum of an embedding of each field of integer codes.

    .. math:: h = \sum_f E_f[c_f]

    Args:
        sizes: number of codes of each field.
        dim: width d.

    Example:
        >>> Codes([3, 2], dim=4)(torch.tensor([[2, 1], [0, 0]], dtype=torch.uint8)).shape
        torch.Size([2, 4])
    """

    starts: Tensor

    def __init__(self, sizes: Sequence[int], dim: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.table = nn.EmbeddingBag(sum(sizes), dim, mode="sum")
        nn.init.xavier_uniform_(self.table.weight)
        starts = torch.tensor([*accumulate(sizes, initial=0)][:-1])
        self.register_buffer("starts", starts, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Embed integer codes [N, fields] as float [N, d]."""
        rows = codes + self.starts
        if torch.compiler.is_exporting():  # ONNX has no bags, but for a loop over all rows
            return nn.functional.embedding(rows, self.table.weight).sum(1)
        return self.table(rows)


class MoleculeGIN(nn.Module):
    r"""A :class:`GIN` on molecules, whose atoms and bonds are integer codes.

    .. math:: h_v^{(0)} = \sum_f E_f[x_{vf}], \qquad e_{uv} = \sum_f E'_f[b_{uvf}]

    Args:
        dim: width of each layer.
        layers: number of layers K ≥ 1.
        readout: as of :class:`GIN`.
        jk: as of :class:`GIN`.

    Attributes:
        out_dim: width of the embeddings, as of :class:`GIN`.

    Raises:
        InputError: for sizes below 1, an unknown readout or jk, or graphs that are no molecules.

    Source:
        Hu et al. (2020), *Strategies for Pre-training Graph Neural Networks*, with the layers of
        InfoGraph.

    Example:
        >>> from gcl_hard.molecules.data import from_smiles
        >>> batch = from_smiles(["CCO", "C"]).all()
        >>> gin = MoleculeGIN(dim=8, layers=2)
        >>> gin(batch.x, batch.edge_index, batch.batch, batch.edge_attr)[1].shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        dim: int = 64,
        layers: int = 4,
        *,
        readout: Readout = "sum",
        jk: JumpingKnowledge = "cat",
    ) -> None:
        super().__init__()
        self.gin = GIN(dim, dim, layers, readout=readout, jk=jk, edge_dim=dim)
        self.atoms, self.bonds = Codes([*ATOMS.values()], dim), Codes([*BONDS.values()], dim)
        self.out_dim = self.gin.out_dim

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        edge_attr: Tensor,
        n_graphs: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Embed a batch of molecules.

        Args:
            x: integer [N, 6], codes of the atoms.
            edge_index: int64 [2, E], both directions of every bond.
            batch: int64 [N], molecule of each atom, ascending.
            edge_attr: integer [E, 4], codes of the bonds.
            n_graphs: G, as of :class:`GIN`.

        Returns:
            Embeddings of atoms float [N, d] and of molecules float [G, d], d = ``out_dim``.
        """
        for name, codes, fields in (("atoms", x, ATOMS), ("bonds", edge_attr, BONDS)):
            if codes.is_floating_point() or codes.shape[1] != len(fields):
                raise InputError(
                    f"{name} must be integer codes of {', '.join(fields)}, got {codes.dtype} "
                    f"{list(codes.shape)}: gcl_hard.molecules.from_smiles makes such graphs"
                )
        return self.gin(self.atoms(x), edge_index, batch, self.bonds(edge_attr), n_graphs)
