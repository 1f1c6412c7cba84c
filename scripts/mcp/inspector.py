#!/usr/bin/env python3
"""Runs the steps of steps.json with the command line of the MCP Inspector: `http URL` or `stdio PROGRAM ARGUMENT...`.
Each step is a connection of its own."""

import json
import os
import pathlib
import subprocess
import sys

STEPS = json.loads(pathlib.Path(__file__).with_name("steps.json").read_text())
INSPECTOR = f"{os.environ['SVCFS_TOOLS']}/node/node_modules/@modelcontextprotocol/inspector-cli/build/index.js"
METHODS = {
    "tools": ("tools/list", "tools", "name"),
    "resources": ("resources/list", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    "prompts": ("prompts/list", "prompts", "name"),
}
kind, *server = sys.argv[1:]


def ask(*arguments):
    """The answer of the server, or the error as text."""
    # It looks for its own version in the folder above that in which it is started.
    folder = os.path.dirname(INSPECTOR)
    command = ["node", INSPECTOR, *server, *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    if ran.returncode != 0:
        return ran.stdout + ran.stderr, True
    return json.loads(ran.stdout), False


def arguments_of(flag, arguments, saved):
    for name, value in arguments.items():
        if isinstance(value, str) and value.startswith("{") and value[1:-1] in saved:
            value = saved[value[1:-1]]
        yield flag
        yield f"{name}={value if isinstance(value, str) else json.dumps(value)}"


def answer(step, saved):
    """The text of a step, the names it lists, its structure, and whether it failed."""
    if step["do"] in METHODS:
        method, list_name, member = METHODS[step["do"]]
        found, failed = ask("--method", method)
        return ("", [entry[member] for entry in found[list_name]], None, failed) if not failed else (found, [], None, True)
    if step["do"] == "read":
        found, failed = ask("--method", "resources/read", "--uri", step["uri"])
        return (found if failed else found["contents"][0]["text"]), [], None, failed
    if step["do"] == "prompt":
        given = arguments_of("--prompt-args", step["with"], saved)
        found, failed = ask("--method", "prompts/get", "--prompt-name", step["name"], *given)
        return (found if failed else found["messages"][0]["content"]["text"]), [], None, failed
    given = arguments_of("--tool-arg", step["with"], saved)
    found, failed = ask("--method", "tools/call", "--tool-name", step["tool"], *given)
    if failed:
        return found, [], None, True
    text = "".join(part["text"] for part in found["content"])
    return text, [], found.get("structuredContent"), found.get("isError", False)


def main():
    saved, done = {}, 0
    for number, step in enumerate(STEPS, 1):
        if "inspector" in step.get("not", []):
            continue
        text, names, structure, failed = answer(step, saved)
        where = f"step {number} {step}: {text} {names}"
        assert failed == ("fails" in step), where
        assert step.get("fails", step.get("text", "")) in text, where
        assert set(step.get("has", [])) <= set(names), where
        if "keep" in step:
            saved[step["keep"]] = structure[step["keep"]]
        done += 1
    print(f"inspector over {kind}: {done} steps")


main()
