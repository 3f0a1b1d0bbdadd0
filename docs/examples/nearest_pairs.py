"""Draws activity cliffs: pairs of similar molecules of very different activity, most alike first.

python nearest_pairs.py [FILE.csv] [LEAST] [COLUMN]: a file with a column of SMILES and of numbers,
the least difference within a pair (1), and which column, if there are several. Without a file: ten
benzenes and the logarithm of their solubility in water, mol/l (Delaney 2004). Needs
`pip install 'gcl-hard[molecules]'`.
"""

import sys
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import Draw

from gcl_hard.molecules import fingerprints, load_molecules, tanimoto

if len(sys.argv) == 1:
    Path("benzenes.csv").write_text(
        "smiles,y\nc1ccccc1O,0\nNc1ccccc1,-0.41\nCc1ccccc1O,-0.62\nCc1ccccc1N,-2.21\n"
        "COc1ccccc1O,-1.96\nOc1ccccc1O,0.62\nOc1ccccc1Cl,-1.06\nCOc1ccccc1Cl,-2.46\n"
        "Nc1ccccc1O,-0.72\nNc1ccccc1Cl,-1.52\n"
    )
    sys.argv += ["benzenes.csv"]
molecules = load_molecules(sys.argv[1], targets=sys.argv[3:] or None).molecules
if len(molecules.tasks) > 1:
    sys.exit(f"name one column, {' or '.join(molecules.tasks)}, after the file and a difference")
y, least = molecules.y.double().numpy().ravel(), float((*sys.argv, 1)[2])

bits = fingerprints(molecules)
alike = np.triu(tanimoto(bits, bits), k=1) * (abs(y[:, None] - y) >= least)
shown = []
while len(shown) < 6 and alike.max() > 0:
    i, j = np.unravel_index(alike.argmax(), alike.shape)
    shown += [(i, f"{y[i]:.2f}"), (j, f"{y[j]:.2f}, {alike[i, j]:.2f} alike")]
    alike[[i, j]], alike[:, [i, j]] = 0, 0  # every molecule once
drawn = [Chem.MolFromSmiles(molecules.smiles[i].decode()) for i, _ in shown]
legends = [legend for _, legend in shown]
Draw.MolsToGridImage(drawn, molsPerRow=2, subImgSize=(340, 190), legends=legends).save("pairs.png")
print(f"pairs.png: {len(shown) // 2} pairs of {len(molecules)} molecules")
