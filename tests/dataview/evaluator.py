#!/usr/bin/env python3
"""Expected results of Dataview queries, from an evaluator that shares no code with svcfs.

Usage: evaluator.py            write expected/*.json from queries/*.json
       evaluator.py --check    compare instead; exit 1 and list what differs
       evaluator.py --query TEXT [PAGE]   print the result of one query
"""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from oracle.queries import evaluate  # noqa: E402
from oracle.vault import Vault  # noqa: E402

HERE = Path(__file__).parent


def expected_of(vault, file):
    results = {}
    for entry in json.loads(file.read_text()):
        if entry["id"] in results:
            sys.exit(f"{file.name}: the id {entry['id']} occurs twice")
        result = evaluate(vault, entry["page"], entry["query"])
        result.pop("reason", None)
        results[entry["id"]] = result
    return results


def text_of(results):
    """One line for each query, so that a difference shows in a review."""
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in results.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments):
    vault = Vault(HERE)
    if arguments[:1] == ["--query"]:
        page = arguments[2] if len(arguments) > 2 else "Meta/Dashboard.md"
        print(json.dumps(evaluate(vault, page, arguments[1]), ensure_ascii=False, indent=1))
        return 0
    differences = 0
    for file in sorted((HERE / "queries").glob("*.json")):
        target = HERE / "expected" / file.name
        text = text_of(expected_of(vault, file))
        if arguments == ["--check"]:
            if not target.exists() or target.read_text() != text:
                print(f"{target.name} differs; run tests/dataview/evaluator.py and review the difference")
                differences += 1
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
