// Markdown as nodes. Nothing is ever parsed as HTML: tags are text, pictures are links, and links show where they lead.

import MarkdownIt from "markdown-it";
import type { ComponentChildren, VNode } from "preact";
import { h } from "preact";
import { useMemo } from "preact/hooks";
import { link, plain } from "./text";

const parser = new MarkdownIt({ html: false, linkify: true, breaks: false });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
parser.validateLink = () => true; // what is not a link is shown as text below

type Token = ReturnType<typeof parser.parse>[number];

// Link is a link whose target can be seen.
export function Link({ href, children, text }: { href: string; children?: ComponentChildren; text: string }): VNode {
  const url = link(href);
  if (!url) return <span>{children ?? plain(text)} <span class="dim">({plain(href)})</span></span>;
  const shown = text === href || text === url;
  return (
    <a href={url} target="_blank" rel="noopener noreferrer" title={url}>
      {children ?? plain(text)}
      {shown ? null : <span class="target"> ({new URL(url).host || url})</span>}
    </a>
  );
}

// list turns tokens into nodes; at is where it goes on.
function list(tokens: Token[], at: { i: number }, until: string): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  while (at.i < tokens.length) {
    const t = tokens[at.i++];
    if (t.type === until) break;
    out.push(node(t, tokens, at));
  }
  return out;
}

function textOf(tokens: Token[], from: number, until: string): string {
  let s = "";
  for (let i = from; i < tokens.length && tokens[i].type !== until; i++) s += tokens[i].content;
  return s;
}

const aligned = (t: Token): string | undefined => {
  const style = String(t.attrGet("style") ?? "");
  return style.includes("right") ? "right" : style.includes("center") ? "center" : undefined;
};

function node(t: Token, tokens: Token[], at: { i: number }): ComponentChildren {
  switch (t.type) {
    case "inline":
      return list(t.children ?? [], { i: 0 }, "");
    case "text":
    case "html_inline":
      return plain(t.content);
    case "softbreak":
      return "\n";
    case "hardbreak":
      return <br />;
    case "code_inline":
      return <code>{plain(t.content)}</code>;
    case "fence":
    case "code_block":
      return <Code text={t.content} language={t.info.trim().split(/\s+/)[0] ?? ""} />;
    case "html_block":
      return <pre>{plain(t.content)}</pre>;
    case "hr":
      return <hr />;
    case "image":
      return <Link href={String(t.attrGet("src") ?? "")} text={"picture: " + (t.content || "without a description")} />;
    case "link_open": {
      const href = String(t.attrGet("href") ?? "");
      const text = textOf(tokens, at.i, "link_close");
      return <Link href={href} text={text}>{list(tokens, at, "link_close")}</Link>;
    }
    case "paragraph_open": {
      const children = list(tokens, at, "paragraph_close");
      return t.hidden ? children : <p dir="auto">{children}</p>;
    }
  }
  if (t.nesting === 1 && t.type.endsWith("_open")) {
    const children = list(tokens, at, t.type.replace(/_open$/, "_close"));
    switch (t.tag) {
      case "h1": case "h2": case "h3": case "h4": case "h5": case "h6":
        // The page has headings of its own; those of a message are below them.
        return h("h" + Math.min(Number(t.tag[1]) + 2, 6), { class: "l" + t.tag[1], dir: "auto" }, children);
      case "ol":
        return <ol start={Number(t.attrGet("start") ?? 1)}>{children}</ol>;
      case "table":
        return <div class="wide" tabIndex={0}><table>{children}</table></div>;
      case "th":
      case "td":
        return h(t.tag, { style: { textAlign: aligned(t) } }, children);
      case "ul": case "li": case "blockquote": case "strong": case "em": case "s": case "thead": case "tbody": case "tr":
        return h(t.tag, {}, children);
    }
    return children;
  }
  return plain(t.content);
}

export function Code({ text, language }: { text: string; language: string }): VNode {
  const copy = () => void navigator.clipboard?.writeText(text);
  return (
    <figure class="code">
      <figcaption>
        <span>{plain(language) || "text"}</span>
        <button type="button" onClick={copy}>Copy</button>
      </figcaption>
      <pre tabIndex={0}><code>{plain(text.replace(/\n$/, ""))}</code></pre>
    </figure>
  );
}

export function Markdown({ text }: { text: string }): VNode {
  const children = useMemo(() => list(parser.parse(text, {}), { i: 0 }, ""), [text]);
  return <div class="markdown">{children}</div>;
}
