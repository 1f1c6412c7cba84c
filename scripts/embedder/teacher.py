"""The sentence vectors of all-MiniLM-L6-v2: teacher.py MODEL_DIR SENTENCES OUTPUT_DIR

Architecture: BERT with 6 layers, 12 heads and 384 dimensions (Devlin et al. 2018), the mean over the tokens, normalised.
"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

LAYERS, HEADS, WIDTH = 6, 12, 384
MAX_TOKENS = 48
BATCH = 64
PART = 5_000
CLS, SEP = 101, 102
VOCABULARY = 30_522


class Teacher:
    def __init__(self, directory: Path):
        weights = load_file(directory / "model.safetensors")
        self.weights = {name.removeprefix("bert."): value for name, value in weights.items()}
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        return self.encode([encoding.ids for encoding in self.tokenizer.encode_batch(texts)])

    def encode_tokens(self) -> np.ndarray:
        """The vector of each token alone."""
        return self.encode([[CLS, token, SEP] for token in range(VOCABULARY)])

    def encode(self, ids: list[list[int]]) -> np.ndarray:
        order = np.argsort([len(tokens) for tokens in ids], kind="stable")
        vectors = np.zeros((len(ids), WIDTH), np.float32)
        for start in range(0, len(ids), BATCH):
            rows = order[start : start + BATCH]
            length = max(len(ids[row]) for row in rows)
            padded = np.zeros((len(rows), length), np.int64)
            mask = np.zeros((len(rows), length), np.float32)
            for at, row in enumerate(rows):
                padded[at, : len(ids[row])] = ids[row]
                mask[at, : len(ids[row])] = 1
            vectors[rows] = self._forward(padded, mask)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalise(self, x, name):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(variance + np.float32(1e-12))
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def _attention(self, x, bias, layer):
        batch, length, _ = x.shape

        def heads(name):
            return self._linear(x, f"{layer}.attention.self.{name}").reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) * np.float32((WIDTH / HEADS) ** -0.5) + bias
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ heads("value")
        return self._linear(mixed.transpose(0, 2, 1, 3).reshape(batch, length, WIDTH), f"{layer}.attention.output.dense")

    def _forward(self, ids, mask):
        embeddings = self.weights
        x = embeddings["embeddings.word_embeddings.weight"][ids]
        x = x + embeddings["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._normalise(x + embeddings["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        bias = ((1 - mask) * np.float32(-1e9))[:, None, None, :]
        for at in range(LAYERS):
            layer = f"encoder.layer.{at}"
            x = self._normalise(self._attention(x, bias, layer) + x, f"{layer}.attention.output.LayerNorm")
            inner = self._linear(x, f"{layer}.intermediate.dense")
            inner = inner * np.float32(0.5) * (1 + erf(inner * np.float32(0.5**0.5)))
            x = self._normalise(self._linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
        return (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)


def main():
    model, sentences, output = map(Path, sys.argv[1:])
    output.mkdir(exist_ok=True)
    teacher = Teacher(model)
    texts = sentences.read_text().splitlines()
    tokens = output / "tokens.npy"
    if not tokens.exists():
        np.save(tokens, teacher.encode_tokens())
    for start in range(0, len(texts), PART):
        part = output / f"part-{start:07}.npy"
        if not part.exists():
            vectors = teacher.encode_texts(texts[start : start + PART])
            np.save(part.with_suffix(".tmp.npy"), vectors)
            part.with_suffix(".tmp.npy").rename(part)
            print(f"{start + len(vectors)} of {len(texts)}", flush=True)


if __name__ == "__main__":
    main()
