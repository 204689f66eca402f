// A thread as a value: the fold of the server's notifications. It is the same reducer as host/internal/client, and the transcripts there
// are the test of both.

import type { Json, Notification } from "./rpc";

export type Turn = { id: string; status: string; error: Json; diff: string; startedAt: number; durationMs: number };
export type Level = 0 | 1 | 2; // info, warning, error
export type Notice = { level: Level; text: string; next: string };
export type Question = { id: string; method: string; params: Json; thread: string; turn: string; item: string };

// Bounds of what is kept of a stream: of a command that writes without end, its beginning and its end, in UTF-16 units.
const keepHead = 64 << 10;
const keepTail = 64 << 10;
const keepMost = 4 * (keepHead + keepTail);
const maxParts = 1000; // of reasoning, whose numbers come from a model's provider

const encoder = new TextEncoder();
const decoder = new TextDecoder();
// bytes returns the length of text in UTF-8, which the offsets of deltas count.
const bytes = (s: string): number => encoder.encode(s).length;

// Stream is text that grows.
class Stream {
  text = "";
  omitted = 0;
  received = 0; // bytes
  bounded = false;
  parts = 0;

  add(delta: string): void {
    this.text += delta;
    this.received += bytes(delta);
    if (this.bounded && this.text.length > keepMost) {
      const cut = this.text.length - keepHead - keepTail;
      this.omitted += bytes(this.text.slice(keepHead, keepHead + cut));
      this.text = this.text.slice(0, keepHead) + this.text.slice(keepHead + cut);
    }
  }

  // addAt adds a delta whose place is known: what overlaps with what was received is skipped.
  addAt(offset: number, delta: string): void {
    if (offset > this.received) {
      this.omitted += offset - this.received;
      this.received = offset;
    }
    const skip = this.received - offset;
    if (skip === 0) {
      this.add(delta);
    } else {
      const b = encoder.encode(delta);
      if (skip < b.length) this.add(decoder.decode(b.subarray(skip)));
    }
  }

  part(n: number): void {
    for (; this.parts <= n; this.parts++) if (this.text) this.text += "\n\n";
  }

  set(text: string): void {
    this.text = "";
    this.omitted = this.received = this.parts = 0;
    this.add(text);
  }

  // load takes the text of an item.
  load(body: Json): void {
    switch (body.type) {
      case "agentMessage":
      case "plan":
        this.set(body.text ?? "");
        break;
      case "reasoning": {
        const parts: string[] = body.summary?.length ? body.summary : (body.content ?? []);
        this.set(parts.join("\n\n"));
        this.parts = parts.length;
        break;
      }
      case "commandExecution": {
        this.bounded = true;
        const out = body.aggregatedOutput;
        if (out != null && (out !== "" || this.received === 0)) this.set(out);
      }
    }
  }
}

// Item is a visible part of a turn, or a notice.
export class Item {
  body: Json = null; // null: a notice
  notice: Notice | null = null;
  done = false;
  version = 0; // changes with the item
  readonly key: string;
  readonly stream = new Stream();
  private static count = 0;

  constructor(readonly turn: string) {
    this.key = "i" + Item.count++;
  }
  get text(): string {
    return this.stream.text;
  }
  get omitted(): number {
    return this.stream.omitted;
  }
}

function ending(u: Turn): Notice | null {
  if (u.status === "interrupted") return { level: 0, text: "interrupted", next: "" };
  if (u.status !== "failed") return null;
  if (!u.error) return { level: 2, text: "the turn failed", next: "" };
  return { level: 2, text: u.error.message, next: u.error.next ?? "" };
}

export class Thread {
  name = "";
  cwd = "";
  model = "";
  provider = "";
  effort = "";
  approval: Json = null;
  sandbox: Json = null;
  status: Json = { type: "idle" };
  usage: Json = null;
  turns: Turn[] = [];
  items: Item[] = [];
  questions: Question[] = [];
  queue: Json[] = [];
  queueStale = false;
  plan: Json[] = []; // of the newest turn that has one
  closed = false;
  older: string | null = null; // continues the turns before the first one
  seq = 0;
  part = 0;
  private byKey = new Map<string, Item>();

  constructor(readonly id: string) {}

  // started returns the thread of a response to thread/start, resume or fork.
  static started(r: Json): Thread {
    const t = new Thread(r.thread.id);
    t.cwd = r.cwd;
    t.model = r.model;
    t.provider = r.modelProvider;
    t.approval = r.approvalPolicy;
    t.sandbox = r.sandbox;
    t.status = r.thread.status;
    t.name = r.thread.name ?? "";
    t.effort = r.reasoningEffort ?? "";
    t.seq = r.seq ?? 0;
    if (r.initialTurnsPage) t.prepend(r.initialTurnsPage.data, r.initialTurnsPage.nextCursor);
    return t;
  }

  // prepend adds turns that precede those which are known, latest first as in a page of turns.
  prepend(page: Json[], older: string | null): void {
    this.older = older;
    const turns: Turn[] = [];
    const items: Item[] = [];
    for (const of of [...page].reverse()) {
      if (this.turn(of.id)) continue;
      const u = this.newTurn(of);
      turns.push(u);
      for (const body of of.items ?? []) {
        const i = new Item(of.id);
        i.body = body;
        i.done = of.status !== "inProgress" || body.completedAtMs != null;
        i.stream.load(body);
        items.push(i);
        this.byKey.set(of.id + "/" + body.id, i);
      }
      const n = ending(u);
      if (n) items.push(this.noticeOf(u.id, n));
    }
    this.turns.unshift(...turns);
    this.items.unshift(...items);
  }

  // resume returns the parameters with which thread/resume continues after what is known.
  resume(): Json {
    return { threadId: this.id, excludeTurns: true, afterSeq: this.seq, afterPart: this.part };
  }

  get running(): Turn | null {
    const u = this.turns[this.turns.length - 1];
    return u?.status === "inProgress" ? u : null;
  }

  get title(): string {
    return this.name || this.cwd;
  }

  // contextLeft returns the share of the model's context window that is left, in percent; null: not known.
  get contextLeft(): number | null {
    const window = this.usage?.modelContextWindow;
    if (!window || window <= 0) return null;
    return Math.min(Math.floor((Math.max(window - this.usage.last.totalTokens, 0) * 100) / window), 100);
  }

  item(turn: string, id: string): Item | undefined {
    return this.byKey.get(turn + "/" + id);
  }

  turn(id: string): Turn | undefined {
    return this.turns.findLast((u) => u.id === id);
  }

  ask(q: Question): void {
    if (!this.questions.some((o) => o.id === q.id)) this.questions = [...this.questions, q];
  }

  settle(id: string): void {
    this.questions = this.questions.filter((q) => q.id !== id);
  }

  // disconnected forgets the questions, which are asked again when the thread is resumed.
  disconnected(): void {
    this.questions = [];
  }

  note(n: Notice): void {
    this.items.push(this.noticeOf(this.running?.id ?? "", n));
  }

  private noticeOf(turn: string, n: Notice): Item {
    const i = new Item(turn);
    i.notice = n;
    i.done = true;
    return i;
  }

  private newTurn(of: Json): Turn {
    const u: Turn = { id: of.id, status: "", error: null, diff: "", startedAt: 0, durationMs: 0 };
    this.update(u, of);
    return u;
  }

  private update(u: Turn, of: Json): void {
    u.status = of.status;
    u.error = of.error ?? null;
    u.startedAt = of.startedAt ?? u.startedAt;
    u.durationMs = of.durationMs ?? u.durationMs;
  }

  private begin(of: Json): void {
    const u = this.turn(of.id);
    if (u) this.update(u, of);
    else this.turns.push(this.newTurn(of));
  }

  private end(of: Json): void {
    const known = this.turn(of.id);
    if (known && known.status !== "inProgress") return; // it was sent again
    this.begin(of);
    const n = ending(this.turn(of.id)!);
    if (n) this.items.push(this.noticeOf(of.id, n));
  }

  private put(turn: string, body: Json, done: boolean): void {
    if (!body?.id) return;
    let i = this.item(turn, body.id);
    if (!i) {
      i = new Item(turn);
      this.byKey.set(turn + "/" + body.id, i);
      this.items.push(i);
    } else if (i.done && !done) {
      return; // it was sent again
    }
    i.body = body;
    i.done = done;
    i.version++;
    if (done || i.stream.text === "") i.stream.load(body);
  }

  private grow(p: Json, add: (s: Stream) => void): void {
    const i = this.item(p.turnId, p.itemId);
    if (!i || i.done) return;
    add(i.stream);
    i.version++;
  }

  // apply changes the thread as a notification says. Those of other threads, and those without an effect on what is shown, leave it as it is.
  apply(n: Notification): void {
    const p = n.params;
    if (p?.threadId !== this.id) return;
    if (n.seq > 0) {
      if (n.seq < this.seq) return; // it was sent again
      this.seq = n.seq;
      this.part = n.part;
    }
    switch (n.method) {
      case "thread/status/changed":
        this.status = p.status;
        break;
      case "thread/name/updated":
        this.name = p.threadName ?? "";
        break;
      case "thread/tokenUsage/updated":
        this.usage = p.tokenUsage;
        break;
      case "thread/settings/updated": {
        const s = p.threadSettings;
        this.cwd = s.cwd;
        this.model = s.model;
        this.provider = s.modelProvider;
        this.approval = s.approvalPolicy;
        this.sandbox = s.sandboxPolicy;
        this.effort = s.effort ?? "";
        break;
      }
      case "thread/queue/changed":
        this.queueStale = true;
        break;
      case "thread/closed":
        this.closed = true;
        break;
      case "turn/started":
        this.begin(p.turn);
        break;
      case "turn/completed":
        this.end(p.turn);
        break;
      case "turn/diff/updated": {
        const u = this.turn(p.turnId);
        if (u) u.diff = p.diff;
        break;
      }
      case "turn/plan/updated":
        this.plan = p.plan ?? [];
        break;
      case "item/started":
        this.put(p.turnId, p.item, false);
        break;
      case "item/completed":
        this.put(p.turnId, p.item, true);
        break;
      case "item/agentMessage/delta":
        this.grow(p, (s) => s.add(p.delta));
        break;
      case "item/reasoning/summaryTextDelta":
        this.grow(p, (s) => (s.part(Math.min(p.summaryIndex, maxParts)), s.add(p.delta)));
        break;
      case "item/reasoning/textDelta":
        this.grow(p, (s) => (s.part(Math.min(p.contentIndex, maxParts)), s.add(p.delta)));
        break;
      case "item/commandExecution/outputDelta":
        this.grow(p, (s) => (p.offset != null ? s.addAt(p.offset, p.delta) : s.add(p.delta)));
        break;
      case "error":
        if (p.willRetry) this.note({ level: 1, text: p.error.message + " (trying again)", next: "" });
        break;
      case "warning":
      case "guardianWarning":
        this.note({ level: 1, text: p.message, next: "" });
        break;
      case "serverRequest/resolved":
        this.settle(p.requestId);
    }
  }
}
