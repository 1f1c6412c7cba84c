"""svcfs as a provider for the memory benchmarks of `benchd-harness`.

A conversation is stored with `svc_remember` and a question answered with the text of `svc_recall`, without a model:
so only the questions count whose answers are compared by text. Each question has its own `scope`.
"""

import json
import sys

import requests
from benchd_harness.adapters.base import BaseAdapter
from benchd_harness.benchmarks import get_benchmark
from benchd_harness.scoring.deterministic import score_response

# Those whose data is in the package; the others download it.
BENCHMARKS = ["smoke-memory-v0", "reliability-v1"]
BUDGET = 2000


class SvcfsAdapter(BaseAdapter):
    """Calls the tools of a server at ADDRESS."""

    def __init__(self, address):
        self._address = address
        self._question = 0
        self._session = requests.Session()

    @property
    def name(self):
        return "svcfs"

    def _call(self, tool, arguments):
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        answer = self._session.post(f"{self._address}/mcp", json=request, headers=headers, timeout=30)
        answer.raise_for_status()
        result = answer.json()["result"]
        text = "\n".join(part["text"] for part in result["content"])
        if result.get("isError"):
            raise RuntimeError(f"{tool}: {text}")
        return text

    def reset(self):
        self._question += 1

    def ingest(self, turns):
        lines = [f"{turn.get('timestamp') or ''} {turn['role']}: {turn['content']}".strip() for turn in turns]
        self._call("svc_remember", {"content": "\n\n".join(lines), "scope": self._scope()})

    def recall(self, query):
        return self._call("svc_recall", {"query": query, "scope": self._scope(), "budget_tokens": BUDGET})

    def _scope(self):
        return f"question-{self._question}"


def run(adapter, slug):
    """Prints one line for each question; returns the numbers of right answers, of answers, and of those for a model."""
    right = scored = for_model = 0
    for item in get_benchmark(slug).load_items():
        adapter.reset()
        adapter.ingest(item.ingest_history)
        answer = adapter.recall(item.recall_query)
        result = score_response(answer, item.expected_answer, item.scoring_method, item.max_score)
        if result.status != "scored":
            for_model += 1
            continue
        scored += 1
        right += result.scored_correct
        print(f"{'ok  ' if result.scored_correct else 'FAIL'} {slug} {item.dimension}: {item.recall_query}")
    return right, scored, for_model


def main():
    adapter = SvcfsAdapter(sys.argv[1])
    for slug in BENCHMARKS:
        right, scored, for_model = run(adapter, slug)
        print(json.dumps({"benchmark": slug, "right": right, "of": scored, "need a model": for_model}))


if __name__ == "__main__":
    main()
