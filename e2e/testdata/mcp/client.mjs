// A client of the TypeScript SDK that uses gantry mcp serve, and fails if anything is not as it should be.
// Usage: node client.mjs stdio COMMAND ARGUMENTS... | http URL TOKEN
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [kind, where, ...rest] = process.argv.slice(2);
const asked = [];
let action = 'decline';

async function connect(elicits) {
  const client = new Client({ name: 'typescript', version: '1.0.0' }, { capabilities: elicits ? { elicitation: {} } : {} });
  if (elicits) {
    client.setRequestHandler(ElicitRequestSchema, (request) => {
      asked.push(request.params.message);
      return { action };
    });
  }
  await client.connect(kind === 'stdio'
    ? new StdioClientTransport({ command: where, args: rest, env: process.env, stderr: 'inherit' })
    : new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } }));
  return client;
}

// The SDK checks structured results against the schema that a tool declares.
const call = (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, { timeout: 120_000, ...options });

const client = await connect(true);
const { tools } = await client.listTools();
assert(tools.some((t) => t.name === 'exec_command'), JSON.stringify(tools));
for (const name of ['gantry', 'gantry-reply']) {
  const schema = tools.find((t) => t.name === name).outputSchema;
  assert.deepEqual(schema.required, ['threadId', 'content']);
}

// The user of the client declines, then accepts.
const progress = [];
const first = await call(client, 'gantry', { prompt: 'run it' }, { onprogress: (p) => progress.push(p.message) });
assert.equal(first.structuredContent.content, 'done with run it');
assert.equal(first.content[0].text, 'done with run it');
assert(progress.some((line) => line.includes('echo made >> made')), `progress ${progress}`);
assert(!existsSync('made'));
assert(asked.length === 1 && asked[0].includes('echo made >> made'), `asked ${asked}`);
action = 'accept';
const { threadId } = first.structuredContent;
const second = await call(client, 'gantry-reply', { threadId, prompt: 'run it again' });
assert.deepEqual(second.structuredContent, { threadId, content: 'done with run it again' });
assert(existsSync('made'));

// A tool of a plugin.
const said = await call(client, 'exec_command', { cmd: 'echo said', login: false });
assert(!said.isError && said.content[0].text.includes('said'), JSON.stringify(said));

// A call that is cancelled is an interrupted turn, after which the thread goes on.
const cancel = new AbortController();
const waiting = call(client, 'gantry-reply', { threadId, prompt: 'wait' }, { signal: cancel.signal });
while (!existsSync('begun')) await pause(20);
cancel.abort();
await assert.rejects(waiting);
const after = await call(client, 'gantry-reply', { threadId, prompt: 'hello' });
assert.equal(after.structuredContent.content, 'done with hello');

// Requests for what gantry does not have are answered.
await assert.rejects(client.getPrompt({ name: 'nothing' }), /nothing/);
await assert.rejects(client.readResource({ uri: 'gantry-artifact://nothing/here' }), /not found/i);
await assert.rejects(client.subscribeResource({ uri: 'gantry-artifact://nothing/here' }));
assert.equal((await call(client, 'gantry', { prompt: ' ' })).isError, true);
await client.close();

// Another connection goes on with the thread, and is refused what it can't put to a user.
const again = await connect(false);
const third = await call(again, 'gantry-reply', { threadId, prompt: 'run it unasked' });
assert.equal(third.structuredContent.content, 'done with run it unasked');
assert(third.structuredContent.refused[0].includes('does not support elicitation'), JSON.stringify(third));
await again.close();
console.log('all is well');
