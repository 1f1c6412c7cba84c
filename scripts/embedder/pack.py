"""Writes the model file: pack.py MODEL_DIR VECTORS OUTPUT"""

import sys
from pathlib import Path

import numpy as np

from format import pack

model, vectors, output = map(Path, sys.argv[1:])
output.write_bytes(pack(np.load(vectors), (model / "vocab.txt").read_text().splitlines()))
print(f"{output}: {output.stat().st_size / 1e6:.1f} MB")
