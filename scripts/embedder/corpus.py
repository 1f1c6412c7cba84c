"""Collects training sentences: corpus.py WORDNET_DIR TRANSLATION_EN OUTPUT"""

import random
import re
import sys
from pathlib import Path

LIMIT = 200_000
MIN_WORDS, MAX_WORDS = 4, 60


def wordnet_sentences(directory: Path):
    """Glosses with the words that they explain, and examples."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (directory / f"data.{part}").read_text().splitlines():
            if line.startswith("  "):
                continue
            data, gloss = line.split(" | ", 1)
            fields = data.split()
            words = [fields[4 + 2 * at].replace("_", " ") for at in range(int(fields[3], 16))]
            definition, *examples = re.split(r'; "', gloss)
            yield f"{', '.join(words[:3])}: {definition.strip()}"
            yield from (example.strip(' "') for example in examples)


def debian_sentences(file: Path):
    """Sentences of package descriptions, and their titles."""
    for stanza in file.read_text().split("\n\n"):
        match = re.search(r"^Description-en: (.*)\n((?: .*\n?)*)", stanza, re.MULTILINE)
        if not match:
            continue
        title, body = match.groups()
        package = stanza.split("\n", 1)[0].removeprefix("Package: ")
        yield f"{package}: {title}"
        for paragraph in re.split(r"\n \.\n", body):
            text = " ".join(line.strip() for line in paragraph.splitlines())
            yield from re.split(r"(?<=[.!?]) +(?=[A-Z])", text)


def main():
    wordnet, debian, output = map(Path, sys.argv[1:])
    sentences = dict.fromkeys([*wordnet_sentences(wordnet), *debian_sentences(debian)])
    usable = [text for text in sentences if MIN_WORDS <= len(text.split()) <= MAX_WORDS]
    random.Random(1).shuffle(usable)
    output.write_text("\n".join(usable[:LIMIT]) + "\n")
    print(f"{len(usable)} sentences, {min(LIMIT, len(usable))} used")


main()
