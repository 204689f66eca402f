// A server of the TypeScript SDK. Usage: node server.mjs stdio|http|sse
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const text = (text) => ({ content: [{ type: 'text', text }] });
const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

function newServer() {
  const server = new McpServer({ name: 'typescript', version: '1.0.0' }, { instructions: 'Tools of a shop.' });
  server.registerTool('greet', { description: 'Greets.', inputSchema: { name: z.string() }, annotations: { readOnlyHint: true } },
    ({ name }) => text(`hello ${name}`));
  server.registerTool('picture', { description: 'Shows a picture.' },
    () => ({ content: [{ type: 'text', text: 'a dot' }, { type: 'image', data: picture, mimeType: 'image/png' }] }));
  const price = { product: z.string(), cents: z.number() };
  server.registerTool('price', { description: 'Says a price.', inputSchema: { product: z.string() }, outputSchema: price }, ({ product }) => {
    const structuredContent = { product, cents: 1250 };
    return { structuredContent, content: [{ type: 'text', text: JSON.stringify(structuredContent) }] };
  });
  server.registerTool('fail', { description: 'Fails.' }, () => { throw new Error('out of stock'); });
  server.registerTool('order', { description: 'Orders what its user chooses.' }, async (extra) => {
    const requestedSchema = {
      type: 'object', required: ['size'],
      properties: { size: { type: 'integer' }, colour: { type: 'string', enum: ['red', 'blue'] } },
    };
    await extra.sendNotification({
      method: 'notifications/progress', params: { progressToken: extra._meta.progressToken, progress: 1, total: 2, message: 'looked into the store' },
    });
    const answer = await extra.sendRequest({ method: 'elicitation/create', params: { message: 'Which one?', requestedSchema } }, ElicitResultSchema);
    return text(answer.action === 'accept' ? `ordered ${answer.content.size} ${answer.content.colour}` : answer.action);
  });
  server.registerTool('grow', { description: 'Offers another tool.' }, () => {
    server.registerTool('grown', { description: 'Was added.' }, () => text('grown')); // which tells the client
    return text('there is another tool');
  });
  server.registerResource('opening hours', 'shop://hours', {}, (uri) => ({ contents: [{ uri: uri.href, text: 'from nine to five' }] }));
  server.registerResource('product', new ResourceTemplate('shop://product/{name}', { list: undefined }), {},
    (uri, { name }) => ({ contents: [{ uri: uri.href, text: `the product ${name}` }] }));
  server.registerPrompt('offer', { argsSchema: { product: z.string() } },
    ({ product }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Write an offer for ${product}.` } }] }));
  return server;
}

const sessions = new Map();

async function http(req, res) {
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
    await newServer().connect(transport);
  }
  await transport.handleRequest(req, res);
}

async function sse(req, res) {
  const url = new URL(req.url, 'http://localhost');
  if (req.method === 'POST') {
    await sessions.get(url.searchParams.get('sessionId')).handlePostMessage(req, res);
    return;
  }
  const transport = new SSEServerTransport('/messages', res);
  sessions.set(transport.sessionId, transport);
  await newServer().connect(transport);
}

const kind = process.argv[2];
if (kind === 'stdio') {
  await newServer().connect(new StdioServerTransport());
} else {
  const listener = createServer(kind === 'http' ? http : sse);
  listener.listen(0, '127.0.0.1', () => console.log(`listening on ${listener.address().port}`));
}
