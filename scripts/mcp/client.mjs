// Runs the steps of steps.json with the TypeScript SDK: `VERSION http URL` or `VERSION stdio PROGRAM ARGUMENT...`.
// VERSION is `1` (@modelcontextprotocol/sdk) or `2` (@modelcontextprotocol/client).

import assert from "node:assert";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.SVCFS_TOOLS}/node/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
for (const level of ["warn", "error"]) {
  console[level] = (...words) => {
    throw new Error(`a warning: ${words.join(" ")}`);
  };
}

const [version, kind, first, ...rest] = process.argv.slice(2);
const steps = JSON.parse(readFileSync(new URL("steps.json", import.meta.url)));
const TIMEOUT_MS = 20_000;

async function connect() {
  if (version === "1") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { ResourceUpdatedNotificationSchema } = await load("@modelcontextprotocol/sdk/types.js");
    const client = new Client({ name: "test", version: "1" });
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (message) => announce(message.params.uri));
    await client.connect(kind === "http" ? new StreamableHTTPClientTransport(new URL(first)) : new StdioClientTransport({ command: first, args: rest }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
  client.setNotificationHandler("notifications/resources/updated", (message) => announce(message.params.uri));
  await client.connect(kind === "http" ? new StreamableHTTPClientTransport(new URL(first)) : new StdioClientTransport({ command: first, args: rest }));
  return client;
}

let announce = () => {};
const client = await connect();
const saved = {};

function filled(value) {
  if (typeof value === "string" && /^\{\w+\}$/.test(value)) return saved[value.slice(1, -1)];
  if (value && typeof value === "object" && !Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member)]));
  }
  return value;
}

async function watch(step) {
  const announced = new Promise((resolve, reject) => {
    announce = resolve;
    setTimeout(() => reject(new Error("no announcement")), TIMEOUT_MS).unref();
  });
  const change = () => client.callTool({ name: step.then.tool, arguments: step.then.with });
  if (version === "2" && client.getNegotiatedProtocolVersion() >= "2026-07-28") {
    const subscription = await client.listen({ resourceSubscriptions: [step.uri] });
    await change();
    assert.equal(await announced, step.uri);
    await subscription.close();
  } else {
    await client.subscribeResource({ uri: step.uri });
    await change();
    assert.equal(await announced, step.uri);
    await client.unsubscribeResource({ uri: step.uri });
  }
}

// The text of a step, the names it lists, and its structure.
async function answer(step) {
  const args = filled(step.with ?? {});
  switch (step.do) {
    case "tools":
      return { names: (await client.listTools()).tools.map((tool) => tool.name) };
    case "resources":
      return { names: (await client.listResources()).resources.map((resource) => resource.uri) };
    case "templates":
      return { names: (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate) };
    case "prompts":
      return { names: (await client.listPrompts()).prompts.map((prompt) => prompt.name) };
    case "read":
      return { text: (await client.readResource({ uri: step.uri })).contents[0].text };
    case "prompt":
      return { text: (await client.getPrompt({ name: step.name, arguments: args })).messages[0].content.text };
    case "complete": {
      const ref = step.prompt ? { type: "ref/prompt", name: step.prompt } : { type: "ref/resource", uri: step.uri };
      const argument = { name: step.argument[0], value: step.argument[1] };
      return { names: (await client.complete({ ref, argument })).completion.values };
    }
    case "watch":
      await watch(step);
      return {};
    case "call": {
      const result = await client.callTool({ name: step.tool, arguments: args });
      const text = result.content.map((part) => part.text).join("");
      if (result.isError) throw new Error(text);
      return { text, structure: result.structuredContent };
    }
  }
  throw new Error(`unknown step: ${JSON.stringify(step)}`);
}

let done = 0;
for (const [index, step] of steps.entries()) {
  const where = `step ${index + 1} ${JSON.stringify(step)}`;
  if (["typescript", `typescript${version}`, `typescript${version}-${kind}`].some((name) => step.not?.includes(name))) continue;
  let result;
  try {
    result = await answer(step);
  } catch (error) {
    assert(step.fails && error.message.includes(step.fails), `${where}: ${error.message}`);
    done += 1;
    continue;
  }
  assert(!step.fails, `${where} succeeded: ${result.text}`);
  assert((result.text ?? "").includes(step.text ?? ""), `${where}: ${result.text}`);
  assert((step.has ?? []).every((name) => result.names.includes(name)), `${where}: ${result.names}`);
  if (step.keep) saved[step.keep] = result.structure[step.keep];
  done += 1;
}
const negotiated = version === "2" ? client.getNegotiatedProtocolVersion() : "2025";
await client.close();
console.log(`typescript ${version} (${negotiated}) over ${kind}: ${done} steps`);
