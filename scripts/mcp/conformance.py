#!/usr/bin/env python3
"""Compares results of the conformance suite with expected-failures.txt: `REVISION RESULT-FOLDER`.

The suite's own list names scenarios. Here each check is compared, so that a scenario with one check that needs a tool
of the suite's test server still tests everything else."""

import json
import pathlib
import re
import sys

# Fewer scenarios than a revision has: a part of the suite did not run.
MIN_SCENARIOS = {"2026-07-28": 48, "2025-11-25": 32}

revision, folder = sys.argv[1:]
expected, failed, problems, passed = set(), {}, [], 0
for line in pathlib.Path(__file__).with_name("expected-failures.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        revisions, scenario, check = line.split()
        if revision in revisions.split(","):
            expected.add((scenario, check))

results = sorted(pathlib.Path(folder).glob("server-*/checks.json"))
for path in results:
    scenario = re.sub(r"^server-(.+)-\d{4}-\d\d-\d\dT.*$", r"\1", path.parent.name)
    for check in json.loads(path.read_text()):
        if check["status"] == "FAILURE":
            failed[(scenario, check["id"])] = check.get("errorMessage", "")
        passed += check["status"] == "SUCCESS"

for name in sorted(failed.keys() - expected):
    problems.append(f"{' '.join(name)} failed: {failed[name]}")
for name in sorted(expected - failed.keys()):
    problems.append(f"{' '.join(name)} does not fail any more: remove it from expected-failures.txt")
if len(results) < MIN_SCENARIOS[revision]:
    problems.append(f"only {len(results)} scenarios have run")
print("\n".join(problems) or f"{revision}: {len(results)} scenarios, {passed} checks passed, {len(failed)} failed as expected")
sys.exit(bool(problems))
