"""What the Python SDK asks of a server: `http URL` or `stdio PROGRAM ARGUMENT...`. Any warning is a failure."""

import asyncio
import logging
import sys
import warnings

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

warnings.simplefilter("error")


class Failing(logging.Handler):
    def emit(self, record):
        raise AssertionError(f"a warning: {record.getMessage()}")


logging.getLogger().addHandler(Failing(logging.WARNING))

PAGE = "---\ntitle: {0}\ntags: [sdk]\n---\n\n# {0}\n\nfox & <b>\n\n## Part\n\nSee [[index]].\n"


async def call(client, name, expected, **arguments):
    """The text of a tool's answer, and its structure where it has one."""
    result = await client.call_tool(name, arguments)
    text = "".join(part.text for part in result.content)
    assert not result.is_error, f"{name}: {text}"
    assert expected in text, f"{name}: {expected!r} is not in {text}"
    return text, result.structured_content


async def converse(server, mode):
    async with Client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) >= 40, tools.keys()
        for tool in tools.values():
            assert tool.input_schema["type"] == "object", tool
        resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert resources == ["svc://schema"], resources
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["svc://file/{path}", "svc://tree/{path}"]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert prompts == ["start", "continue", "consolidate", "review"], prompts
        schema = await client.read_resource("svc://schema")
        assert schema.contents[0].text.strip(), schema

        page = f"sdk/{mode}.md"
        _, written = await call(client, "svc_write", "Written", path=page, content=PAGE.format(mode), actor="python")
        again = PAGE.format(f"{mode} again")
        _, last = await call(client, "svc_write", "Written", path=page, content=again, if_match=written["etag"])
        stale = await client.call_tool("svc_write", {"path": page, "content": "x", "if_match": written["etag"]})
        assert stale.is_error and last["etag"] in stale.content[0].text, stale
        text, structure = await call(client, "svc_read", again, path=page)
        assert text.startswith(f"[etag: {last['etag']} version: ") and structure is None, structure
        await call(client, "svc_read", "[lines 6-6 of 12; continue with offset 6]\n\n# ", path=page, offset=5, limit=1)
        await call(client, "svc_append", "Appended", path=page, content="more\n")
        _, found = await call(client, "svc_search", "fox & <b>", query=f'fox path:{page}')
        assert [row["path"] for row in found["result"]] == [page], found
        await call(client, "svc_query_meta", page, filters=["$.tags[*]=sdk"])
        await call(client, "svc_query", page, query='TABLE title FROM "sdk"')
        await call(client, "svc_section", "See [[index]].", path=page, heading="Part")
        await call(client, "svc_peek", page, path=page)
        await call(client, "svc_tree", f"{mode}.md", path="sdk")
        _, versions = await call(client, "svc_versions", "hash", path=page)
        newest, oldest = versions["result"][0]["hash"], versions["result"][-1]["hash"]
        await call(client, "svc_version", PAGE.format(mode), path=page, version=oldest)
        await call(client, "svc_diff", "+more", **{"path": page, "from": oldest, "to": newest})
        await call(client, "svc_blame", "python 1: ---", path=page)
        await call(client, "svc_backlinks", page, path="index.md")
        await call(client, "svc_lint", "No issues found", path=page)
        await call(client, "svc_context", "", )
        await call(client, "svc_delete", "Deleted", path=page)


async def main():
    kind, first, *rest = sys.argv[1:]
    for mode in ["auto", "legacy"]:
        server = first if kind == "http" else StdioServerParameters(command=first, args=rest)
        await converse(server, mode)


asyncio.run(main())
