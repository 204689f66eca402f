// The items of a transcript.

import { Component, type ComponentChildren, type VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { artifact, fail } from "./app";
import { count, Diff, lines, whole } from "./diff";
import { Code, Markdown } from "./markdown";
import type { Json } from "./rpc";
import type { Item } from "./thread";
import { base, duration, output, plain } from "./text";

const marks: Record<string, string> = { completed: "✓", failed: "✗", declined: "–", interrupted: "–", inProgress: "" };

function Status({ of, text }: { of: string; text?: string }): VNode {
  return <span class={"status " + of}>{of === "inProgress" ? <span class="spinner" role="img" aria-label="running" /> : <span aria-label={of} role="img">{marks[of] ?? ""}</span>} {text}</span>;
}

function Fold({ head, children, open }: { head: ComponentChildren; children: ComponentChildren; open?: boolean }): VNode {
  return <details class="fold" open={open}><summary>{head}</summary><div class="inside">{children}</div></details>;
}

const foldedLines = 12;

// Output is what a command wrote: its beginning and its end, or all of it.
function Output({ text, omitted, live }: { text: string; omitted: number; live: boolean }): VNode | null {
  const [all, showAll] = useState(false);
  const ls = output(text).replace(/\n$/, "").split("\n");
  if (!text) return null;
  const long = ls.length > foldedLines && !all;
  const head = long ? (live ? [] : ls.slice(0, 4)) : ls;
  const tail = long ? ls.slice(live ? -foldedLines : -6) : [];
  return (
    <div class="output">
      {head.length ? <pre tabIndex={0}>{cut(head)}</pre> : null}
      {long ? <button type="button" class="more" onClick={() => showAll(true)}>{ls.length - head.length - tail.length} more lines{omitted ? `, ${omitted} bytes omitted` : ""}</button> : null}
      {tail.length ? <pre tabIndex={0}>{cut(tail)}</pre> : null}
      {all && ls.length > foldedLines ? <button type="button" class="more" onClick={() => showAll(false)}>Show less</button> : null}
    </div>
  );
}

const maxLine = 4000; // characters of a line that are shown

const cut = (ls: string[]): string => ls.map((l) => (l.length > maxLine ? l.slice(0, maxLine) + ` … ${l.length - maxLine} more characters` : l)).join("\n");

export function Changes({ changes, open }: { changes: Json[]; open?: boolean }): VNode {
  return (
    <>
      {changes.map((c) => {
        const ls = c.kind?.type === "add" ? whole(c.diff, "+") : c.kind?.type === "delete" ? whole(c.diff, "-") : lines(c.diff);
        const to = c.kind?.move_path ? " → " + plain(c.kind.move_path) : "";
        return (
          <Fold key={c.path} open={open ?? ls.length < 60} head={
            <><span class="path" title={plain(c.path)}>{plain(base(c.path))}{to}</span> <span class="dim">{c.kind?.type === "add" ? "new" : c.kind?.type === "delete" ? "deleted" : ""}</span> <span class="plus">+{count(ls, "+")}</span> <span class="minus">−{count(ls, "-")}</span></>
          }>
            <Diff of={ls} label={"changes of " + plain(c.path)} />
          </Fold>
        );
      })}
    </>
  );
}

const artifactURL = "gantry-artifact:";

// Picture shows a stored picture or one that is part of the message. Nothing is loaded from anywhere else.
function Picture({ url }: { url: string }): VNode {
  const [src, set] = useState("");
  useEffect(() => {
    if (!url.startsWith(artifactURL)) {
      set(/^data:image\/(png|jpeg|gif|webp);base64,/.test(url) ? url : "");
      return;
    }
    let made = "";
    let gone = false;
    artifact(url.slice(artifactURL.length)).then((b) => {
      if (gone || !b.type.startsWith("image/")) return;
      made = URL.createObjectURL(b);
      set(made);
    }, fail);
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [url]);
  return src ? <img class="picture" src={src} alt="picture" /> : <span class="dim">[picture {plain(url.slice(0, 80))}]</span>;
}

function Inputs({ of }: { of: Json[] }): VNode {
  return (
    <>
      {of.map((c) => {
        switch (c.type) {
          case "text": return <p dir="auto">{plain(c.text)}</p>;
          case "image": return <Picture url={c.url} />;
          case "localImage": return <p class="dim">[picture {plain(c.path)}]</p>;
          default: return <p class="dim">{c.type === "skill" ? "$" : "@"}{plain(c.name ?? c.path ?? c.type)}</p>;
        }
      })}
    </>
  );
}

// json shows a value as indented text.
const json = (v: Json): string => (typeof v === "string" ? v : JSON.stringify(v, null, 2)) ?? "";

function Tool({ name, status, args, ms, children }: { name: string; status: string; args: Json; ms?: number | null; children: ComponentChildren }): VNode {
  return (
    <Fold head={<><Status of={status} /> <code>{plain(name)}</code> {ms ? <span class="dim">{duration(ms)}</span> : null}</>}>
      {args != null ? <Code text={json(args)} language="arguments" /> : null}
      {children}
    </Fold>
  );
}

function contents(items: Json[] | null | undefined): VNode[] {
  return (items ?? []).map((c) => {
    const image = c.imageUrl ?? (c.type === "image" && c.data ? `data:${c.mimeType};base64,${c.data}` : null);
    if (image) return <Picture url={image} />;
    return <Output text={String(c.text ?? json(c))} omitted={0} live={false} />;
  });
}

// commandLine is what a shell was asked to run, or the command itself.
function commandLine(command: string): string {
  const quoted = /^\S*sh -l?c '([^]*)'$/.exec(command)?.[1];
  const parts = quoted?.split("'\\''");
  return parts?.every((p) => !p.includes("'")) ? parts.join("'") : command;
}

function body(i: Item): ComponentChildren {
  const b = i.body;
  switch (b.type) {
    case "userMessage":
      return <div class="user"><span class="hidden">You: </span><Inputs of={b.content ?? []} /></div>;
    case "agentMessage":
      return <div class="agent"><Markdown text={i.text} /></div>;
    case "plan":
      return <Fold open head="Plan"><Markdown text={i.text} /></Fold>;
    case "reasoning":
      return i.text ? <Fold open={!i.done} head={<span class="dim">{i.done ? "Thought" : "Thinking"}</span>}><div class="dim"><Markdown text={i.text} /></div></Fold> : null;
    case "commandExecution": {
      const bad = b.exitCode != null && b.exitCode !== 0;
      return (
        <div class="run">
          <div class="head">
            <Status of={i.done && bad ? "failed" : b.status} />
            <code class="line" title={plain(b.command)}>{plain(commandLine(b.command))}</code>
            <span class="dim">{bad ? `exit ${b.exitCode}` : ""} {b.durationMs ? duration(b.durationMs) : ""}{b.status === "declined" ? "refused" : ""}</span>
          </div>
          <Output text={i.text} omitted={i.omitted} live={!i.done} />
        </div>
      );
    }
    case "fileChange":
      return <div class="files"><div class="head"><Status of={b.status} text={b.status === "declined" ? "Changes refused" : b.status === "failed" ? "Not changed" : i.done ? "Changed" : "Changing"} /></div><Changes changes={b.changes ?? []} /></div>;
    case "mcpToolCall":
      return <Tool name={`${b.server}.${b.tool}`} status={b.status} args={b.arguments} ms={b.durationMs}>{contents(b.result?.content)}{b.error ? <p class="bad">{plain(b.error.message ?? "")}</p> : null}</Tool>;
    case "dynamicToolCall":
      return <Tool name={(b.namespace ? b.namespace + "." : "") + b.tool} status={b.status} args={b.arguments} ms={b.durationMs}>{contents(b.contentItems)}</Tool>;
    case "functionCallOutput":
      return <Tool name={b.name} status="completed" args={null}><Code text={json(b.output)} language="result" /></Tool>;
    case "webSearch":
      return <p class="dim">Searched the web: {plain(b.query)}</p>;
    case "imageView":
      return <p class="dim">Looked at {plain(b.path)}</p>;
    case "contextCompaction":
      return <p class="dim rule">The conversation was compacted</p>;
    case "enteredReviewMode":
      return <p class="dim rule">Review: {plain(b.review)}</p>;
    case "exitedReviewMode":
      return <div class="agent"><Markdown text={b.review ?? ""} /></div>;
    case "subAgentActivity":
      return <p class="dim">Agent {plain(b.agentPath)}: {plain(b.kind)}</p>;
    case "collabAgentToolCall":
      return <Tool name={b.tool} status={b.status} args={b.prompt}>{Object.entries<Json>(b.agentsStates ?? {}).map(([, s]) => <p class="dim">{plain(s.status)} {plain(s.message ?? "")}</p>)}</Tool>;
    case "hookPrompt":
      return <p class="dim">A hook says: {plain((b.fragments ?? []).map((f: Json) => f.text).join("\n"))}</p>;
    case "sleep":
      return <p class="dim">Waited {duration(b.durationMs ?? 0)}</p>;
  }
  return <p class="dim">{plain(String(b.type))}</p>;
}

// ItemView is drawn again when its item has changed.
export class ItemView extends Component<{ item: Item; version: number }> {
  override shouldComponentUpdate(next: { item: Item; version: number }): boolean {
    return next.version !== this.props.version || next.item !== this.props.item;
  }
  override render(): VNode {
    const i = this.props.item;
    if (i.notice) {
      const n = i.notice;
      return <p class={"notice " + ["info", "warn", "bad"][n.level]} role={n.level === 2 ? "alert" : undefined}>{plain(n.text)}{n.next ? <span class="dim"> — {plain(n.next)}</span> : null}</p>;
    }
    return <article class={"item " + i.body.type} id={i.body.id}>{body(i)}</article>;
  }
}
