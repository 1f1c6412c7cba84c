"""The file of a static model, little-endian:

    8 bytes   magic `svcstat1`
    u32       number of tokens
    u32       dimensions
    u32       bytes of the vocabulary
    f32 x n   scale of each token
    i8 x n*d  vectors, by token; the value is the scale times the number
    bytes     vocabulary: the tokens in order, one per line, continuations with `##`
    32 bytes  SHA-256 of everything before
"""

import hashlib
import struct

import numpy as np

MAGIC = b"svcstat1"


def pack(vectors: np.ndarray, vocabulary: list[str]) -> bytes:
    scale = np.abs(vectors).max(1) / 127 + 1e-12
    rows = np.clip(np.round(vectors / scale[:, None]), -127, 127).astype(np.int8)
    words = "".join(f"{word}\n" for word in vocabulary).encode()
    head = MAGIC + struct.pack("<III", *vectors.shape, len(words))
    body = head + scale.astype("<f4").tobytes() + rows.tobytes() + words
    return body + hashlib.sha256(body).digest()
