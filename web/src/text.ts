// Text of others, such as models, tools and files, as it is safe to show.

// Characters that could hide or reorder other text: controls but newline and tab, and formatting characters.
const hides = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// plain makes what would hide or reorder visible.
export const plain = (s: string): string => s.replace(hides, "\ufffd");

// output is plain text of a terminal: without its control sequences, and of a line that was written over only the last state.
export function output(s: string): string {
  return plain(
    s
      .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/g, "")
      .replace(/\r\n/g, "\n")
      .replace(/^.*\r(?=.)/gm, "")
      .replace(/\r/g, ""),
  );
}

export function age(unix: number, now: number): string {
  const s = Math.max(now / 1000 - unix, 0);
  if (s < 60) return "now";
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
}

export const base = (path: string): string => path.replace(/\/+$/, "").split("/").pop() || path;

// link returns a URL that a person may follow, or null.
export function link(url: string): string | null {
  try {
    const u = new URL(url);
    return ["http:", "https:", "mailto:"].includes(u.protocol) ? u.href : null;
  } catch {
    return null;
  }
}
