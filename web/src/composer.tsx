// The message that is being written.

import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, fail, interrupt, send } from "./app";
import type { Json } from "./rpc";
import { plain } from "./text";

const maxPicture = 8 << 20; // bytes

const draftKey = (id: string): string => "draft:" + id;

function read(f: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const r = new FileReader();
    r.onload = () => resolve(String(r.result));
    r.onerror = () => reject(r.error);
    r.readAsDataURL(f);
  });
}

const textOf = (q: Json): string => (q.input ?? []).map((i: Json) => i.text ?? `[${i.type}]`).join(" ");

export function Composer({ id, running, queue, folder }: { id: string; running: boolean; queue: Json[]; folder?: string }): VNode {
  const [text, setText] = useState(sessionStorage.getItem(draftKey(id)) ?? "");
  const [pictures, setPictures] = useState<string[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  const write = (s: string) => {
    setText(s);
    if (s) sessionStorage.setItem(draftKey(id), s);
    else sessionStorage.removeItem(draftKey(id));
  };
  useLayoutEffect(() => {
    const b = box.current!;
    b.style.height = "auto";
    const most = innerHeight * 0.4;
    b.style.height = Math.min(b.scrollHeight, most) + "px";
    b.style.overflowY = b.scrollHeight > most ? "auto" : "hidden";
  }, [text]);
  useLayoutEffect(() => {
    if (!matchMedia("(pointer: coarse)").matches) box.current!.focus();
  }, [id]);
  const ready = text.trim() !== "" || pictures.length > 0;
  const submit = async (later: boolean) => {
    if (!ready) return;
    const sent = { text, pictures };
    write("");
    setPictures([]);
    const input: Json[] = pictures.map((url) => ({ type: "image", url }));
    if (text.trim()) input.push({ type: "text", text });
    if (!(await send(input, later, folder ?? ""))) { // give it back
      if (!box.current?.value) write(sent.text);
      setPictures(sent.pictures);
    }
  };
  const add = async (fs: Iterable<File>) => {
    for (const f of fs) {
      if (!/^image\/(png|jpeg|gif|webp)$/.test(f.type)) fail(new Error(`${f.name} is not a picture that can be sent`));
      else if (f.size > maxPicture) fail(new Error(`${f.name} is larger than ${maxPicture >> 20} MB`));
      else {
        const url = await read(f);
        setPictures((ps) => [...ps, url]);
      }
    }
  };
  const key = (e: KeyboardEvent) => {
    if (e.isComposing) return;
    if (e.key === "Enter" && !e.shiftKey) {
      e.preventDefault();
      void submit(e.altKey);
    } else if (e.key === "Escape" && running) {
      e.preventDefault();
      interrupt();
    }
  };
  return (
    <div class="composer" onDragOver={(e) => e.preventDefault()} onDrop={(e) => {
      e.preventDefault();
      void add(e.dataTransfer?.files ?? []);
    }}>
      {queue.length ? (
        <ul class="queue" aria-label="Waiting messages">
          {queue.map((q) => (
            <li key={q.id}>
              <span dir="auto">{plain(textOf(q))}</span>
              <button type="button" onClick={() => void call("thread/queue/delete", { threadId: id, queuedSubmissionId: q.id })} aria-label={"Remove: " + plain(textOf(q))}>×</button>
            </li>
          ))}
        </ul>
      ) : null}
      {pictures.length ? (
        <div class="attached">{pictures.map((p, i) => <button type="button" onClick={() => setPictures(pictures.filter((_, k) => k !== i))} aria-label="Remove the picture"><img src={p} alt="" /></button>)}</div>
      ) : null}
      <textarea
        ref={box} rows={1} value={text} dir="auto" aria-label="Message" placeholder={running ? "Add something to this turn" : "Describe a task"}
        onInput={(e) => write(e.currentTarget.value)} onKeyDown={key}
        onPaste={(e) => {
          const fs = [...(e.clipboardData?.files ?? [])];
          if (fs.length) {
            e.preventDefault();
            void add(fs);
          }
        }}
      />
      <div class="keys">
        <span class="dim">{running ? "Enter steers · Alt-Enter queues · Esc stops" : "Enter sends · Shift-Enter new line"}</span>
        {running ? <button type="button" onClick={interrupt}>Stop</button> : null}
        {running && ready ? <button type="button" onClick={() => void submit(true)}>Queue</button> : null}
        <button type="button" class="main" disabled={!ready} onClick={() => void submit(false)}>{running ? "Steer" : "Send"}</button>
      </div>
    </div>
  );
}
