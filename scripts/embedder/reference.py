"""Writes lines and their token ids by the reference tokenizer: reference.py MODEL_DIR OUTPUT

Two rows per line: the line as a JSON string, and its ids separated by spaces. Unknown words (id 100) are left out.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from lines import lines

UNKNOWN = 100

model, output = map(Path, sys.argv[1:])
tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.no_truncation()
# Text that looks like a special token is text.
tokenizer.encode_special_tokens = True
rows = []
for line in lines():
    ids = tokenizer.encode(line, add_special_tokens=False).ids
    rows += [json.dumps(line, ensure_ascii=False), " ".join(str(token) for token in ids if token != UNKNOWN)]
output.write_text("\n".join(rows) + "\n")
