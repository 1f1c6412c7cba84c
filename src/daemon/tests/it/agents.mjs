// What the TypeScript SDK asks of a server: `http URL` or `stdio PROGRAM ARGUMENT...`. Any warning is a failure.

import assert from "node:assert";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.SVCFS_TOOLS}/node/package.json`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { Ajv } = createRequire(require.resolve("@modelcontextprotocol/sdk/client/index.js"))("ajv");

for (const level of ["warn", "error"]) {
  console[level] = (...words) => {
    throw new Error(`a warning: ${words.join(" ")}`);
  };
}
process.on("warning", (warning) => {
  throw warning;
});

const [kind, first, ...rest] = process.argv.slice(2);
const transport =
  kind === "http" ? new StreamableHTTPClientTransport(new URL(first)) : new StdioClientTransport({ command: first, args: rest });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

const { tools } = await client.listTools();
assert(tools.length >= 40, tools.length);
// Strict: what it does not know is an error, also a format.
const ajv = new Ajv({ strict: true, allErrors: true });
for (const tool of tools) {
  for (const schema of [tool.inputSchema, tool.outputSchema].filter(Boolean)) {
    ajv.compile(schema);
  }
}
const { resources } = await client.listResources();
assert.deepEqual(resources.map((resource) => resource.uri), ["svc://schema"]);
assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 2);
const { prompts } = await client.listPrompts();
assert.deepEqual(prompts.map((prompt) => prompt.name), ["start", "continue", "consolidate", "review"]);
assert((await client.readResource({ uri: "svc://schema" })).contents[0].text.trim());

// The SDK itself holds each structure against the schema of its tool.
async function call(name, args, expected) {
  const result = await client.callTool({ name, arguments: args });
  const text = result.content.map((part) => part.text).join("");
  assert(!result.isError && text.includes(expected), `${name}: ${text}`);
  return result.structuredContent;
}

const path = `sdk/ts-${kind}.md`;
const content = "---\ntitle: T\ntags: [ts]\n---\n\n# T\n\nfox & <b>\n";
const { etag } = await call("svc_write", { path, content, actor: "typescript" }, "Written");
await call("svc_read", { path }, content);
await call("svc_read", { path, offset: 5, limit: 1 }, "[lines 6-6 of 8; continue with offset 6]\n\n# T\n");
await call("svc_append", { path, content: "more\n", if_match: etag }, "Appended");
assert.equal((await call("svc_search", { query: `fox path:${path}` }, "fox & <b>")).result.length, 1);
await call("svc_tree", { path: "sdk" }, `ts-${kind}.md`);
await call("svc_query_meta", { filters: ["$.tags[*]=ts"] }, path);
await call("svc_query", { query: 'TABLE title, missing FROM "sdk"' }, path);
await call("svc_peek", { path }, path);
const versions = (await call("svc_versions", { path }, "hash")).result;
await call("svc_version", { path, version: versions.at(-1).hash }, content);
await call("svc_diff", { path, from: versions.at(-1).hash, to: versions[0].hash }, "+more");
await call("svc_blame", { path }, "typescript");
await call("svc_graph_walk", { path }, path);
await call("svc_health_check", { path }, path);
await call("svc_timeline", { limit: 1 }, path);
await call("svc_delete", { path }, "Deleted");
const missing = await client.callTool({ name: "svc_read", arguments: { path } });
assert(missing.isError && missing.content[0].text.includes("not found"));
await client.close();
