// Applies the transcripts of host/internal/client to the page's reducer: node transcripts.js FOLDER
import { readdirSync, readFileSync } from "node:fs";
import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { Thread } from "../src/thread";

type Line = { id?: string; method: string; params: any; seq?: number; part?: number };

function to(t: Thread, l: Line): void {
  if (l.id === undefined) {
    t.apply({ method: l.method, params: l.params, seq: l.seq ?? 0, part: l.part ?? 0 });
    return;
  }
  const p = l.params;
  t.ask({ id: l.id, method: l.method, params: p, thread: p.threadId, turn: p.turnId ?? "", item: p.itemId ?? "" });
}

// shown is a thread in the form of the golden files.
function shown(t: Thread): unknown {
  return {
    Turns: t.turns.map((u) => ({ ID: u.id, Status: u.status, Error: u.error, Diff: u.diff, StartedAt: u.startedAt, DurationMs: u.durationMs })),
    Items: t.items.map((i) => ({
      Type: i.body?.type ?? "", Turn: i.turn, ID: i.body?.id ?? "", Text: i.text, Done: i.done,
      ...(i.notice ? { Notice: { Level: i.notice.level, Text: i.notice.text, Next: i.notice.next } } : {}),
    })),
    Questions: t.questions.length ? t.questions.map((q) => q.id) : null,
    Model: t.model, Effort: t.effort, Context: t.contextLeft ?? 0, Status: t.status, Seq: t.seq,
  };
}

const folder = process.argv[2];
const names = readdirSync(folder).filter((n) => n.endsWith(".jsonl"));
ok(names.length > 0, "no transcripts in " + folder);
for (const name of names) {
  const lines: Line[] = readFileSync(folder + "/" + name, "utf8").trim().split("\n").map((l) => JSON.parse(l));
  const golden = JSON.parse(readFileSync(folder + "/" + name.replace(".jsonl", ".golden"), "utf8"));
  const whole = new Thread(lines[0].params.threadId);
  let asked = 0;
  for (const l of lines) {
    to(whole, l);
    asked = Math.max(asked, whole.questions.length);
  }
  ok(asked > 0, name + ": no question was open at any time");
  deepStrictEqual(JSON.parse(JSON.stringify(shown(whole))), golden, name);

  // A connection that ends anywhere and continues after the last notification makes the same thread.
  for (let cut = 0; cut < lines.length; cut++) {
    const t = new Thread(lines[0].params.threadId);
    for (const l of lines.slice(0, cut + 1)) to(t, l);
    t.disconnected();
    const { afterSeq, afterPart } = t.resume();
    let again = lines.findIndex((l) => (l.seq ?? 0) > afterSeq || ((l.seq ?? 0) === afterSeq && (l.part ?? 0) > afterPart));
    if (again < 0) again = lines.length;
    if (afterPart === 0) again = Math.max(again, cut + 1);
    for (const l of lines.slice(Math.min(again, cut + 1))) to(t, l);
    deepStrictEqual(JSON.parse(JSON.stringify(shown(t))), golden, `${name}, interrupted after message ${cut + 1}`);
  }
}

// What a command writes is bounded, counted in bytes, and a delta that came twice is counted once.
const t = new Thread("t");
const delta = (offset: number, text: string) =>
  t.apply({ method: "item/commandExecution/outputDelta", params: { threadId: "t", turnId: "u", itemId: "c", delta: text, offset }, seq: 0, part: 0 });
t.apply({ method: "item/started", params: { threadId: "t", turnId: "u", item: { type: "commandExecution", id: "c", aggregatedOutput: "" } }, seq: 0, part: 0 });
delta(0, "begin é ");
delta(0, "begin é ");
for (let i = 0, at = 9; i < 100; i++, at += 64 << 10) delta(at, "x".repeat(64 << 10));
delta(9 + 100 * (64 << 10), " end");
const item = t.item("u", "c")!;
ok(item.text.startsWith("begin é x") && item.text.endsWith("x end"), item.text.slice(0, 20));
strictEqual(item.text.split("begin").length, 2);
strictEqual(new TextEncoder().encode(item.text).length + item.omitted, 13 + 100 * (64 << 10));
console.log(names.length, "transcripts");
