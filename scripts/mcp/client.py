#!/usr/bin/env python3
"""Runs the steps of steps.json with the Python SDK: `MODE http URL` or `MODE stdio PROGRAM ARGUMENT...`. MODE is
`legacy` (the newest version with a handshake) or `auto` (2026-07-28)."""

import asyncio
import json
import logging
import pathlib
import sys
import warnings

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import PromptReference, ResourceTemplateReference

warnings.simplefilter("error")
STEPS = json.loads(pathlib.Path(__file__).with_name("steps.json").read_text())
TIMEOUT = 20


class Failing(logging.Handler):
    def emit(self, record):
        raise AssertionError(f"a warning: {record.getMessage()}")


logging.getLogger().addHandler(Failing(logging.WARNING))


def filled(value, saved):
    """The arguments with the values of earlier answers."""
    if isinstance(value, dict):
        return {name: filled(member, saved) for name, member in value.items()}
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return saved[value[1:-1]]
    return value


async def answer(client, step, saved, updates):
    """The text of a step, the names it lists, and its structure."""
    arguments = filled(step.get("with", {}), saved)
    match step["do"]:
        case "tools":
            return "", [tool.name for tool in (await client.list_tools()).tools], None
        case "resources":
            return "", [str(resource.uri) for resource in (await client.list_resources()).resources], None
        case "templates":
            templates = (await client.list_resource_templates()).resource_templates
            return "", [template.uri_template for template in templates], None
        case "prompts":
            return "", [prompt.name for prompt in (await client.list_prompts()).prompts], None
        case "read":
            return (await client.read_resource(step["uri"])).contents[0].text, [], None
        case "prompt":
            return (await client.get_prompt(step["name"], arguments)).messages[0].content.text, [], None
        case "complete":
            reference = (
                PromptReference(type="ref/prompt", name=step["prompt"])
                if "prompt" in step
                else ResourceTemplateReference(type="ref/resource", uri=step["uri"])
            )
            name, value = step["argument"]
            completed = await client.complete(reference, {"name": name, "value": value})
            return "", completed.completion.values, None
        case "watch":
            return await watch(client, step, updates), [], None
        case "call":
            result = await client.call_tool(step["tool"], arguments)
            text = "".join(part.text for part in result.content)
            if result.is_error:
                raise ValueError(text)
            return text, [], result.structured_content
    raise AssertionError(f"unknown step: {step}")


async def watch(client, step, updates):
    """Subscribes, makes a change, and waits for its announcement."""
    then, uri = step["then"], step["uri"]
    if client.protocol_version >= "2026-07-28":
        async with client.listen(resource_subscriptions=[uri]) as events:
            await client.call_tool(then["tool"], then["with"])
            async with asyncio.timeout(TIMEOUT):
                async for event in events:
                    assert uri in str(event), event
                    return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.subscribe_resource(uri)
    await client.call_tool(then["tool"], then["with"])
    async with asyncio.timeout(TIMEOUT):
        assert uri in await updates.get()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.unsubscribe_resource(uri)
    return ""


async def main():
    mode, kind, first, *rest = sys.argv[1:]
    server = first if kind == "http" else StdioServerParameters(command=first, args=rest)
    updates, saved, done = asyncio.Queue(), {}, 0

    async def handle(message):
        if "resources/updated" in str(getattr(message, "method", "")):
            await updates.put(str(message))

    async with Client(server, mode=mode, message_handler=handle) as client:
        skipped = {"python", f"python-{kind}", f"python-{mode}-{kind}"}
        for number, step in enumerate(STEPS, 1):
            if skipped & set(step.get("not", [])) or (step["do"] == "watch" and kind == "http" and mode == "legacy"):
                continue
            try:
                text, names, structure = await answer(client, step, saved, updates)
            except AssertionError:
                raise
            except Exception as error:
                assert "fails" in step, f"step {number} {step}: {error}"
                assert step["fails"] in str(error), f"step {number} {step}: {error}"
                done += 1
                continue
            assert "fails" not in step, f"step {number} {step} succeeded: {text}"
            assert step.get("text", "") in text, f"step {number} {step}: {text}"
            assert set(step.get("has", [])) <= set(names), f"step {number} {step}: {names}"
            if "keep" in step:
                saved[step["keep"]] = structure[step["keep"]]
            done += 1
        print(f"python {client.protocol_version} over {kind}: {done} steps")


asyncio.run(main())
