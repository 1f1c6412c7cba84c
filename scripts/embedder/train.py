"""Fits token vectors to the teacher's sentence vectors: train.py MODEL_DIR SENTENCES VECTORS_DIR OUTPUT

A sentence is the weighted mean of its tokens, with weights a / (a + p(token)) (Arora et al. 2017) and p by Zipf's law,
because the ids of the vocabulary are ordered by frequency. The token vectors E minimise |A E - Y|^2 + r |E - E0|^2, where
E0 are the teacher's vectors of single tokens; conjugate gradients solve all dimensions at once.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from tokenizers import Tokenizer

from teacher import MAX_TOKENS, VOCABULARY

DIMENSIONS = 256
SMOOTHING = 1e-3
RIDGE = 0.01
STEPS = 80
UNKNOWN = 100
# Ids below are unused or special tokens and single characters.
FIRST_WORD = 1996


def token_weights() -> np.ndarray:
    rank = np.maximum(np.arange(VOCABULARY) - FIRST_WORD, 0) + 2.0
    frequency = 1 / rank
    frequency /= frequency[FIRST_WORD:].sum()
    weights = SMOOTHING / (SMOOTHING + frequency)
    # Characters and punctuation are as frequent as frequent words, but their ids say nothing.
    weights[:FIRST_WORD] = weights[FIRST_WORD + 20]
    return weights.astype(np.float32)


def sentence_matrix(model: Path, texts: list[str], weights: np.ndarray) -> sparse.csr_matrix:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS - 2)
    rows, columns, values = [], [], []
    for row, encoding in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
        tokens = [token for token in encoding.ids if token != UNKNOWN]
        total = weights[tokens].sum() or 1.0
        rows += [row] * len(tokens)
        columns += tokens
        values += (weights[tokens] / total).tolist()
    return sparse.csr_matrix((values, (rows, columns)), (len(texts), VOCABULARY), dtype=np.float32)


def solve(a: sparse.csr_matrix, y: np.ndarray, start: np.ndarray) -> np.ndarray:
    change = np.zeros_like(start)
    residual = a.T @ (y - a @ start)
    direction = residual.copy()
    norm = (residual**2).sum(0)
    for _ in range(STEPS):
        product = a.T @ (a @ direction) + RIDGE * direction
        length = norm / ((direction * product).sum(0) + 1e-12)
        change += direction * length
        residual -= product * length
        next_norm = (residual**2).sum(0)
        direction = residual + direction * (next_norm / (norm + 1e-12))
        norm = next_norm
    return start + change


def main():
    model, sentences, vectors, output = map(Path, sys.argv[1:])
    texts = sentences.read_text().splitlines()
    target = np.concatenate([np.load(part) for part in sorted(vectors.glob("part-???????.npy"))])
    texts = texts[: len(target)]
    mean = target.mean(0)
    _, _, components = np.linalg.svd((target - mean)[:20_000], full_matrices=False)
    projection = components[:DIMENSIONS].T
    weights = token_weights()
    a = sentence_matrix(model, texts, weights)
    start = ((np.load(vectors / "tokens.npy") - mean) @ projection).astype(np.float32)
    target = (target - mean) @ projection
    held_out = len(texts) // 50
    solved = solve(a[held_out:], target[held_out:], start)
    for name, tokens in (("start", start), ("trained", solved)):
        predicted = a[:held_out] @ tokens
        cosine = (predicted * target[:held_out]).sum(1)
        cosine /= np.linalg.norm(predicted, axis=1) * np.linalg.norm(target[:held_out], axis=1) + 1e-9
        print(f"{name}: mean cosine with the teacher on {held_out} held-out sentences {cosine.mean():.3f}")
    np.save(output, (solved * weights[:, None]).astype(np.float32))


main()
