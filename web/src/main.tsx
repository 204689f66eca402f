import "./style.css";
import { Component, render, type VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import * as app from "./app";
import { Composer } from "./composer";
import { Diff, count, files, split, toggleSplit } from "./diff";
import { ItemView } from "./items";
import { QuestionCard } from "./question";
import { age, base, duration, plain } from "./text";
import type { Json } from "./rpc";
import type { Item, Thread, Turn } from "./thread";

const sidebar = signal(false); // on a narrow screen
const search = signal("");

const needsYou = (s: Json): boolean => s?.type === "active" && s.activeFlags?.length > 0;

function stateOf(s: Json): { name: string; label: string } {
  if (needsYou(s)) return { name: "needs", label: "needs you" };
  if (s?.type === "active") return { name: "working", label: "working" };
  if (s?.type === "systemError") return { name: "broken", label: "failed" };
  return { name: "idle", label: "" };
}

function Threads(): VNode {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 60_000);
    return () => clearInterval(timer);
  }, []);
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = app.threads.value.filter((t) => {
    const text = `${t.name ?? ""} ${t.preview} ${t.cwd}`.toLowerCase();
    return (t.preview || t.name || t.id === app.thread.value?.id) && words.every((w) => text.includes(w));
  });
  rows.sort((a, b) => Number(needsYou(b.status)) - Number(needsYou(a.status)));
  const open = app.thread.value?.id;
  return (
    <nav class={sidebar.value ? "threads open" : "threads"} aria-label="Threads">
      <div class="top">
        <a class="logo" href="#/">gantry</a>
        <a class="button" href="#/" onClick={() => (sidebar.value = false)}>New</a>
      </div>
      <input type="search" placeholder="Search threads" aria-label="Search threads" value={search.value} onInput={(e) => (search.value = e.currentTarget.value)} />
      <ul>
        {rows.map((t) => {
          const s = stateOf(t.status);
          return (
            <li key={t.id}>
              <a href={app.address(t.id)} aria-current={t.id === open ? "page" : undefined} onClick={() => (sidebar.value = false)}>
                <span class="name" dir="auto">{plain(t.name || t.preview || "New thread")}</span>
                <span class="about">
                  <span class={"dot " + s.name} />
                  <span class="where" title={plain(t.cwd)}>{plain(base(t.cwd))}</span>
                  <span class={s.name === "needs" ? "needs" : ""}>{s.label || age(t.updatedAt, now)}</span>
                </span>
              </a>
            </li>
          );
        })}
        {rows.length === 0 ? <li class="dim none">{words.length ? "No thread matches." : "No threads yet."}</li> : null}
      </ul>
      <footer><ShareLink /><a href="/licenses.txt" target="_blank" rel="noopener">Licences</a></footer>
    </nav>
  );
}

function ShareLink(): VNode {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await app.link());
      say("Copied");
    } catch (e) {
      app.fail(e);
    }
  };
  return <button type="button" class="plainlink" onClick={copy} title="Copy a link that opens this page in another tab, once">{said || "Copy link"}</button>;
}

type Group = { turn: string; items: Item[]; sum: number };

// groups are the items by turn, so that one that streams does not draw the others again.
function groups(t: Thread): Group[] {
  const out: Group[] = [];
  for (const i of t.items) {
    let g = out[out.length - 1];
    if (!g || g.turn !== i.turn) out.push((g = { turn: i.turn, items: [], sum: 0 }));
    g.items.push(i);
    g.sum += i.version + 1;
  }
  return out;
}

type GroupProps = { group: Group; turn: Turn | undefined; stamp: string };

class GroupView extends Component<GroupProps> {
  override shouldComponentUpdate(next: GroupProps): boolean {
    return next.stamp !== this.props.stamp;
  }
  override render(): VNode {
    const { group, turn } = this.props;
    return (
      <section class="turn">
        {group.items.map((i) => <ItemView key={i.key} item={i} version={i.version} />)}
        {turn && turn.status !== "inProgress" ? <TurnEnd turn={turn} /> : null}
      </section>
    );
  }
}

function TurnEnd({ turn }: { turn: Turn }): VNode | null {
  const changed = turn.diff ? files(turn.diff) : [];
  const time = turn.durationMs ? duration(turn.durationMs) : "";
  if (!changed.length) return time ? <p class="turnend dim">{time}</p> : null;
  const plus = changed.reduce((n, f) => n + count(f.lines, "+"), 0);
  const minus = changed.reduce((n, f) => n + count(f.lines, "-"), 0);
  return (
    <details class="fold turnend">
      <summary><span class="dim">{time} · </span>{changed.length} {changed.length === 1 ? "file" : "files"} changed <span class="plus">+{plus}</span> <span class="minus">−{minus}</span></summary>
      <div class="inside">
        <button type="button" class="more" onClick={toggleSplit}>{split.value ? "Unified" : "Side by side"}</button>
        {changed.map((f) => <><p class="path">{plain(f.path)}</p><Diff of={f.lines} label={"changes of " + plain(f.path)} /></>)}
      </div>
    </details>
  );
}

const near = 80; // pixels from the end that count as being there

function Transcript({ t }: { t: Thread }): VNode {
  app.tick.value; // drawn again when the thread has changed
  const box = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const loading = useRef(false);
  useLayoutEffect(() => {
    stick.current = true;
  }, [t]);
  useLayoutEffect(() => {
    const b = box.current!;
    if (stick.current) b.scrollTop = b.scrollHeight;
  });
  const scrolled = async () => {
    const b = box.current!;
    stick.current = b.scrollHeight - b.scrollTop - b.clientHeight < near;
    if (b.scrollTop < 200 && t.older && !loading.current) {
      loading.current = true;
      const height = b.scrollHeight;
      const top = b.scrollTop;
      if (await app.older(t)) requestAnimationFrame(() => (b.scrollTop = b.scrollHeight - height + top));
      loading.current = false;
    }
  };
  return (
    <div class="transcript" ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label="Transcript" aria-live="off">
      <div class="column">
        {t.older ? <p class="dim none">Scroll up for earlier turns</p> : null}
        {groups(t).map((g) => {
          const u = t.turn(g.turn);
          return <GroupView key={g.items[0].key} group={g} turn={u} stamp={`${g.sum} ${u?.status} ${u?.diff.length ?? 0}`} />;
        })}
        {t.running && t.questions.length === 0 ? <p class="working dim"><span class="spinner" /> Working</p> : null}
      </div>
    </div>
  );
}

const presets: { name: string; approval: string; sandbox: Json }[] = [
  { name: "Workspace: asks for more", approval: "on-request", sandbox: { type: "workspaceWrite", writableRoots: [], networkAccess: false, excludeTmpdirEnvVar: false, excludeSlashTmp: false } },
  { name: "Read-only: asks for anything else", approval: "on-request", sandbox: { type: "readOnly", networkAccess: false } },
  { name: "Ask about all unknown commands", approval: "untrusted", sandbox: { type: "workspaceWrite", writableRoots: [], networkAccess: false, excludeTmpdirEnvVar: false, excludeSlashTmp: false } },
  { name: "Workspace: never asks", approval: "never", sandbox: { type: "workspaceWrite", writableRoots: [], networkAccess: false, excludeTmpdirEnvVar: false, excludeSlashTmp: false } },
  { name: "Full access: no sandbox, never asks", approval: "never", sandbox: { type: "dangerFullAccess" } },
];

function Settings({ t }: { t: Thread }): VNode {
  app.tick.value;
  const update = (change: Json) => void app.call("thread/settings/update", { threadId: t.id, ...change });
  const models = app.models.value;
  const model = models.find((m) => m.model === t.model);
  const efforts: Json[] = model?.supportedReasoningEfforts ?? [];
  const at = presets.findIndex((p) => p.approval === t.approval && p.sandbox.type === t.sandbox?.type);
  const left = t.contextLeft;
  return (
    <div class="settings">
      <select aria-label="Model" value={t.model} onChange={(e) => update({ model: e.currentTarget.value })}>
        {model ? null : <option value={t.model}>{plain(t.model)}</option>}
        {models.map((m) => <option value={m.model}>{plain(m.displayName || m.model)}</option>)}
      </select>
      {efforts.length ? (
        <select aria-label="Reasoning effort" value={t.effort} onChange={(e) => update({ effort: e.currentTarget.value })}>
          {efforts.some((e) => e.reasoningEffort === t.effort) ? null : <option value={t.effort}>{t.effort || "default"}</option>}
          {efforts.map((e) => <option value={e.reasoningEffort}>{plain(e.reasoningEffort)}</option>)}
        </select>
      ) : null}
      <select aria-label="Permissions" value={String(at)} onChange={(e) => {
        const p = presets[Number(e.currentTarget.value)];
        if (p) update({ approvalPolicy: p.approval, sandboxPolicy: p.sandbox });
      }}>
        {at < 0 ? <option value="-1">Permissions of your own</option> : null}
        {presets.map((p, i) => <option value={String(i)}>{p.name}</option>)}
      </select>
      {left != null ? <span class="dim" title="The share of the model's context window that is left">{left}% left</span> : null}
    </div>
  );
}

function Menu({ t }: { t: Thread }): VNode {
  const box = useRef<HTMLDetailsElement>(null);
  const item = (label: string, run: () => void) => (
    <button type="button" onClick={() => {
      box.current!.open = false;
      run();
    }}>{label}</button>
  );
  return (
    <details class="menu" ref={box} onKeyDown={(e) => e.key === "Escape" && (box.current!.open = false)}>
      <summary aria-label="Actions">⋯</summary>
      <div>
        {item("Rename", () => {
          const name = prompt("Name of the thread", t.name);
          if (name) void app.call("thread/name/set", { threadId: t.id, name });
        })}
        {item("Continue in a copy", async () => {
          const r = await app.call("thread/fork", { threadId: t.id, excludeTurns: true });
          if (r) location.hash = app.address(r.thread.id);
        })}
        {item("Compact", () => void app.call("thread/compact/start", { threadId: t.id }))}
        {item("Undo the last turn's changes", async () => {
          const dry = await app.call("gantry/turn/undo", { threadId: t.id, dryRun: true });
          const paths: string[] = (dry?.files ?? []).map((f: Json) => plain(f.path ?? String(f)));
          if (dry && confirm(`Restore these files?\n\n${paths.join("\n")}`)) void app.call("gantry/turn/undo", { threadId: t.id });
        })}
        {item("Archive", async () => {
          if ((await app.call("thread/archive", { threadId: t.id })) !== undefined) location.hash = "#/";
        })}
      </div>
    </details>
  );
}

function Plan({ t }: { t: Thread }): VNode | null {
  app.tick.value;
  if (!t.plan.length) return null;
  const done = t.plan.filter((s) => s.status === "completed").length;
  const now = t.plan.find((s) => s.status === "inProgress");
  return (
    <details class="plan">
      <summary><span class="dim">Plan {done}/{t.plan.length}</span> {now ? plain(now.step) : ""}</summary>
      <ol>{t.plan.map((s) => <li class={s.status}>{s.status === "completed" ? "✓ " : s.status === "inProgress" ? "▸ " : "· "}{plain(s.step)}</li>)}</ol>
    </details>
  );
}

function ThreadView({ t }: { t: Thread }): VNode {
  app.tick.value;
  const q = t.questions[0];
  const row = app.threads.value.find((r) => r.id === t.id);
  return (
    <>
      <header class="bar">
        <Toggle />
        <div class="title"><h1 dir="auto">{plain(t.name || row?.preview || "New thread")}</h1><span class="dim" title={plain(t.cwd)}>{plain(t.cwd)}</span></div>
        <Menu t={t} />
      </header>
      <Transcript t={t} />
      <div class="dock"><div class="column">
        <Plan t={t} />
        {q ? <QuestionCard key={q.id} q={q} more={t.questions.length - 1} /> : null}
        <Problem />
        <Composer id={t.id} running={!!t.running} queue={t.queue} />
        <Settings t={t} />
      </div></div>
    </>
  );
}

const Toggle = (): VNode => <button type="button" class="toggle" aria-label="Threads" aria-expanded={sidebar.value} onClick={() => (sidebar.value = !sidebar.value)}>☰</button>;

function Problem(): VNode | null {
  const p = app.problem.value;
  if (!p) return null;
  return <p class="notice bad" role="alert">{plain(p.text)}{p.next ? <span class="dim"> — {plain(p.next)}</span> : null} <button type="button" class="plainlink" onClick={() => (app.problem.value = null)}>Dismiss</button></p>;
}

const folder = signal("");

function NewThread(): VNode {
  const folders = [...new Set(app.threads.value.map((t) => t.cwd as string))].slice(0, 20);
  return (
    <>
      <header class="bar empty"><Toggle /><div class="title" /></header>
      <div class="new"><div class="column">
        <h1>What shall be done?</h1>
        <Problem />
        <Composer id="" running={false} queue={[]} folder={folder.value} />
        <label class="folder">in <input list="folders" value={folder.value} placeholder="the folder where gantry web was started" spellcheck={false} onInput={(e) => (folder.value = e.currentTarget.value)} /></label>
        <datalist id="folders">{folders.map((f) => <option value={f} />)}</datalist>
      </div></div>
    </>
  );
}

function Connection(): VNode | null {
  const s = app.state.value;
  if (s === "lost") return <p class="offline" role="status">The server can't be reached. What you type is kept, and the page continues as soon as it is back.</p>;
  return null;
}

function Locked({ ended }: { ended: boolean }): VNode {
  return (
    <main class="locked">
      <h1>gantry</h1>
      <p>{ended ? "This session has ended." : "This page opens with a link that works once."}</p>
      <p class="dim">Use the link that <code>gantry web</code> prints, or “Copy link” in a tab that is open.</p>
    </main>
  );
}

function App(): VNode {
  const s = app.state.value;
  if (s === "locked" || s === "refused") return <Locked ended={s === "refused"} />;
  const t = app.thread.value;
  useEffect(() => {
    document.title = (app.threads.value.some((r) => needsYou(r.status)) ? "● " : "") + "gantry";
  });
  return (
    <div class="app">
      <Threads />
      {sidebar.value ? <div class="shade" onClick={() => (sidebar.value = false)} /> : null}
      <main>
        <Connection />
        {app.opening.value ? <div class="new"><p class="dim">Opening …</p></div> : t ? <ThreadView key={t.id} t={t} /> : <NewThread />}
      </main>
    </div>
  );
}

void app.start();
render(<App />, document.getElementById("root")!);
