// SPDX-License-Identifier: MIT
//
// client.mjs TTQ REVISION RECORDING: the protocol's own client, which checks every message against the
// protocol's schema, lists the tools of `ttq mcp` and calls some. Prints one JSON document.
import { createRequire } from "node:module";
import path from "node:path";

// Packages lie in the working directory, not beside this file.
const require = createRequire(path.join(process.cwd(), "package.json"));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [ttq, revision, recording] = process.argv.slice(2);
const client = new Client({ name: "mcp_test", version: "1" },
    { versionNegotiation: { mode: revision === "legacy" ? "legacy" : { pin: revision } } });
await client.connect(new StdioClientTransport({ command: ttq, args: ["mcp"], env: process.env }));
const tools = await client.listTools();
const call = (name, args) => client.callTool({ name, arguments: args });
const answers = [
  await call("recordings", {}),
  await call("autopsy", { recording }),
  await call("query", { recording, text: "calls to add", limit: 4 }),
  await call("trace_call", { recording, function: "add" }),
  await call("source", { recording, time: "crash" }),
  await call("language", {}),
  await call("query", { recording, text: "wrtes to counter" }),
];
console.log(JSON.stringify({ server: client.getServerVersion(), tools: tools.tools.map(t => t.name),
                             answers }));
await client.close();
