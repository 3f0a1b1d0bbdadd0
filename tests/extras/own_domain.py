"""The module that docs/own-domain.md shows, in the working folder."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-domain.md"
(code,) = re.findall(
    r'^```python title="measured.py"\n(.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)
Path("measured.py").write_text(code, encoding="utf-8")
sys.path.insert(0, "")
IRIS = ["--domain=measured", "--dataset=iris", "--epochs=2", "--output=out"]
