// The state of the page: the connection, the list of threads, and the one that is open.

import { batch, signal } from "@preact/signals";
import { Conn, RpcError, type Json, type Notification, type State } from "./rpc";
import { Thread, type Question } from "./thread";

export const state = signal<State | "locked">("connecting");
export const threads = signal<Json[]>([]);
export const thread = signal<Thread | null>(null); // null: a new one is being written
export const opening = signal(false);
export const tick = signal(0); // changes with what is shown of the thread
export const problem = signal<{ text: string; next: string } | null>(null);
export const models = signal<Json[]>([]);

let conn: Conn;
let token = "";
let started: () => void;
const starts = new Promise<void>((done) => (started = done)); // once there is a connection, be it up or not

const storedToken = "gantry-token";

// start takes the code of the link, or the token of this tab, and connects.
export async function start(): Promise<void> {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  token = sessionStorage.getItem(storedToken) ?? "";
  if (code) {
    history.replaceState(null, "", location.pathname); // the code must not stay in the history
    try {
      const r = await fetch("/session", { method: "POST", body: JSON.stringify({ code }) });
      if (r.ok) {
        token = (await r.json()).Token;
        sessionStorage.setItem(storedToken, token);
      }
    } catch {
      // the server has gone: the connection says so
    }
  }
  if (!token) {
    state.value = "locked";
    return;
  }
  conn = new Conn(token, { state: connected, notified, asked });
  conn.start();
  started();
  addEventListener("hashchange", route);
}

// link returns a link that opens the page in another tab, once.
export async function link(): Promise<string> {
  const r = await fetch("/code", { method: "POST", headers: { Authorization: "Bearer " + token } });
  if (!r.ok) throw new Error(await r.text());
  return `${location.origin}/#code=${(await r.json()).Code}`;
}

// artifact returns the stored content of the open thread.
export async function artifact(digest: string): Promise<Blob> {
  const r = await fetch(`/artifact/${thread.value?.id}/${digest}`, { headers: { Authorization: "Bearer " + token } });
  if (!r.ok) throw new Error(await r.text());
  return r.blob();
}

export function fail(e: unknown): void {
  if (e instanceof RpcError && e.code === 0) return; // the connection was lost, which is shown otherwise
  problem.value = e instanceof RpcError ? { text: e.message, next: e.next } : { text: String(e instanceof Error ? e.message : e), next: "" };
}

// call calls a method, and shows its error; the result is undefined then.
export async function call(method: string, params: Json): Promise<Json> {
  await starts;
  try {
    return await conn.call(method, params);
  } catch (e) {
    fail(e);
    return undefined;
  }
}

let frame = 0;

// changed draws what has changed with the next frame.
export function changed(): void {
  if (!frame) {
    frame = requestAnimationFrame(() => {
      frame = 0;
      tick.value++;
    });
  }
}

async function connected(s: State): Promise<void> {
  const t = thread.value;
  state.value = s;
  if (s === "lost") {
    t?.disconnected();
    changed();
    return;
  }
  if (s === "refused") {
    sessionStorage.removeItem(storedToken);
    return;
  }
  if (s !== "up") return;
  void refresh();
  void call("model/list", {}).then((r) => (models.value = r?.data?.filter((m: Json) => !m.hidden) ?? []));
  if (t) await call("thread/resume", t.resume());
  else route();
}

let refreshing = 0;

// refresh reads the list of threads.
async function refresh(): Promise<void> {
  const r = await call("thread/list", { limit: 100, sortKey: "updated_at", sourceKinds: ["cli", "vscode", "exec", "appServer"] });
  if (r) threads.value = r.data;
}

function refreshSoon(): void {
  if (refreshing) return;
  refreshing = setTimeout(() => {
    refreshing = 0;
    void refresh();
  }, 300) as unknown as number;
}

function row(id: string, change: Json): void {
  if (!threads.value.some((t) => t.id === id)) refreshSoon();
  else threads.value = threads.value.map((t) => (t.id === id ? { ...t, ...change } : t));
}

function notified(n: Notification): void {
  const p = n.params;
  switch (n.method) {
    case "thread/started":
      refreshSoon();
      break;
    case "thread/status/changed":
      row(p.threadId, { status: p.status });
      if (p.status.type !== "active") refreshSoon(); // its time and preview
      break;
    case "thread/name/updated":
      row(p.threadId, { name: p.threadName ?? null });
      break;
    case "thread/archived":
    case "thread/unarchived":
    case "thread/deleted":
      refreshSoon();
      break;
  }
  const t = thread.value;
  if (!t) return;
  t.apply(n);
  if (t.queueStale) {
    t.queueStale = false;
    void readQueue(t);
  }
  changed();
}

async function readQueue(t: Thread): Promise<void> {
  const r = await call("thread/queue/list", { threadId: t.id });
  if (r) {
    t.queue = r.data;
    changed();
  }
}

function asked(id: string, method: string, params: Json): void {
  const q: Question = { id, method, params, thread: params.threadId, turn: params.turnId ?? "", item: params.itemId ?? "" };
  const t = thread.value;
  if (t && q.thread === t.id) {
    t.ask(q);
    changed();
  } else if (opening.value) {
    waiting.push([id, method, params]);
  }
}

export function answer(q: Question, result: Json): void {
  const t = thread.value;
  if (!conn.answer(q.id, result)) fail(new Error("the question was answered elsewhere"));
  t?.settle(q.id);
  changed();
}

// route opens what the address says.
function route(): void {
  const id = /^#\/thread\/([\w-]+)/.exec(location.hash)?.[1];
  if (!id) leave();
  else if (thread.value?.id !== id) void open(id);
}

export const address = (id: string): string => "#/thread/" + id;

function leave(): void {
  const t = thread.value;
  thread.value = null;
  if (t) void call("thread/unsubscribe", { threadId: t.id });
}

const pageOfTurns = 20;

async function open(id: string): Promise<void> {
  leave();
  opening.value = true;
  const r = await call("thread/resume", { threadId: id, excludeTurns: true, initialTurnsPage: { limit: pageOfTurns, itemsView: "full" } });
  opening.value = false;
  if (location.hash !== address(id)) {
    if (r) void call("thread/unsubscribe", { threadId: id });
    return;
  }
  if (r) show(Thread.started(r));
}

function show(t: Thread): void {
  batch(() => {
    thread.value = t;
    problem.value = null;
    tick.value++;
  });
  void readQueue(t);
  for (const early of waiting.splice(0)) asked(...early);
}

// Questions that came before the response to the request that opened their thread.
const waiting: [string, string, Json][] = [];

// older reads the turns before those that are known.
export async function older(t: Thread): Promise<boolean> {
  const r = await call("thread/turns/list", { threadId: t.id, cursor: t.older, limit: pageOfTurns, itemsView: "full" });
  if (!r) return false;
  t.prepend(r.data, r.nextCursor);
  tick.value++;
  return true;
}

// begin starts a thread in a folder; "": that of the server.
async function begin(cwd: string): Promise<Thread | null> {
  const r = await call("thread/start", cwd ? { cwd } : {});
  if (!r) return null;
  const t = Thread.started(r);
  history.pushState(null, "", address(t.id));
  show(t);
  return t;
}

// send starts a turn, or steers the one that runs, or queues for the next one. It reports whether the message was accepted.
export async function send(input: Json[], queue: boolean, cwd: string): Promise<boolean> {
  problem.value = null;
  const t = thread.value ?? (await begin(cwd));
  if (!t) return false;
  const id = crypto.randomUUID();
  const r = queue && t.running
    ? await call("thread/queue/add", { threadId: t.id, input, clientUserMessageId: id })
    : await call("turn/start", { threadId: t.id, input, clientUserMessageId: id });
  return r !== undefined;
}

export function interrupt(): void {
  const t = thread.value;
  if (t?.running) void call("turn/interrupt", { threadId: t.id, turnId: t.running.id });
}
