"""Molecules of SMILES under InfoGraph-style contrast of two views."""

from gcl_hard import fit
from gcl_hard.graphs import TwoView, embed_graphs
from gcl_hard.molecules import MoleculeGIN, fingerprints, from_smiles

smiles = ["CCO", "CCN", "CCC", "CCCO", "CCCN", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C", "no molecule"]
molecules = from_smiles(smiles, [1, 0, 0, 1, 0, 1, 0, 0, 0], classes=True, name="alcohols")
assert [line.row for line in molecules.invalid] == [8]
model = TwoView(MoleculeGIN(dim=16, layers=2), method="hscl", augmentations=["mask-columns"])
fit(model, molecules, batch_size=8, epochs=1)
assert embed_graphs(model.encoder, molecules).shape == (8, 32)
assert len(fingerprints(molecules)) == 8
