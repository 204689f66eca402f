// Unified diffs as nodes.

import type { VNode } from "preact";
import { signal } from "@preact/signals";
import { plain } from "./text";

type Kind = " " | "+" | "-" | "@";
type Line = { kind: Kind; text: string; old: number; new: number };

// split shows two columns, where there is room.
export const split = signal(localStorage.getItem("split") === "yes");

export function toggleSplit(): void {
  split.value = !split.value;
  localStorage.setItem("split", split.value ? "yes" : "no");
}

// lines reads the hunks of one file.
export function lines(diff: string): Line[] {
  const out: Line[] = [];
  let o = 1;
  let n = 1;
  let inside = false;
  for (const l of diff.replace(/\n$/, "").split("\n")) {
    const at = /^@@(?: -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)?)? ?@*/.exec(l);
    if (at) {
      o = Number(at[1] ?? 1);
      n = Number(at[2] ?? 1);
      inside = true;
      if (at[1]) out.push({ kind: "@", text: l, old: 0, new: 0 });
    } else if (!inside && /^(diff |index |--- |\+\+\+ |new file|deleted file|similarity|rename |old mode|new mode)/.test(l)) {
      continue;
    } else if (l.startsWith("+")) {
      out.push({ kind: "+", text: l.slice(1), old: 0, new: n++ });
    } else if (l.startsWith("-")) {
      out.push({ kind: "-", text: l.slice(1), old: o++, new: 0 });
    } else if (!l.startsWith("\\")) {
      out.push({ kind: " ", text: l.slice(1), old: o++, new: n++ });
    }
  }
  return out;
}

// whole are the lines of a file that was added or deleted, whose content may come without signs.
export function whole(content: string, kind: "+" | "-"): Line[] {
  if (/^@@/m.test(content)) return lines(content);
  return content.replace(/\n$/, "").split("\n").map((text, i) => ({ kind, text, old: kind === "-" ? i + 1 : 0, new: kind === "+" ? i + 1 : 0 }));
}

export const count = (ls: Line[], kind: Kind): number => ls.reduce((n, l) => n + (l.kind === kind ? 1 : 0), 0);

const names = { " ": "same", "+": "add", "-": "del", "@": "hunk" };
const maxLines = 2000; // of a file; a longer one is cut, since each is a row of a table

function Row({ l }: { l: Line }): VNode {
  return (
    <tr class={names[l.kind]}>
      <td class="no" data-no={l.old || ""} />
      <td class="no" data-no={l.new || ""} />
      <td class="sign" aria-hidden="true">{l.kind === "@" ? "" : l.kind}</td>
      <td class="text">{l.kind === "+" ? <span class="hidden">added: </span> : l.kind === "-" ? <span class="hidden">removed: </span> : null}{plain(l.text)}</td>
    </tr>
  );
}

function pairs(ls: Line[]): [Line | null, Line | null][] {
  const out: [Line | null, Line | null][] = [];
  for (let i = 0; i < ls.length; ) {
    if (ls[i].kind === " " || ls[i].kind === "@") {
      out.push([ls[i], ls[i]]);
      i++;
      continue;
    }
    const gone: Line[] = [];
    const come: Line[] = [];
    while (i < ls.length && ls[i].kind === "-") gone.push(ls[i++]);
    while (i < ls.length && ls[i].kind === "+") come.push(ls[i++]);
    for (let k = 0; k < Math.max(gone.length, come.length); k++) out.push([gone[k] ?? null, come[k] ?? null]);
  }
  return out;
}

const Half = ({ l, no }: { l: Line | null; no: number }): VNode => (
  <>
    <td class="no" data-no={no || ""} />
    <td class={"text " + (l ? names[l.kind] : "none")}>{l ? plain(l.text) : ""}</td>
  </>
);

export function Diff({ of, label }: { of: Line[]; label: string }): VNode {
  const shown = of.slice(0, maxLines);
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={label}>
      <table class={split.value ? "diff split" : "diff"}>
        <tbody>
          {split.value
            ? pairs(shown).map(([a, b]) => <tr><Half l={a} no={a?.old ?? 0} /><Half l={b} no={b?.new ?? 0} /></tr>)
            : shown.map((l) => <Row l={l} />)}
        </tbody>
      </table>
      {of.length > maxLines ? <p class="dim">{of.length - maxLines} more lines</p> : null}
    </div>
  );
}

// files splits the diff of several files.
export function files(diff: string): { path: string; lines: Line[] }[] {
  return diff
    .split(/^(?=diff --git )/m)
    .filter((f) => f.trim())
    .map((f) => {
      const to = /^\+\+\+ (?:b\/)?(.*)$/m.exec(f)?.[1];
      const from = /^--- (?:a\/)?(.*)$/m.exec(f)?.[1];
      const path = (to && to !== "/dev/null" ? to : from) ?? /^diff --git a\/(.*?) b\//.exec(f)?.[1] ?? "";
      return { path, lines: lines(f) };
    });
}
