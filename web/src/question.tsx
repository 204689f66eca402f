// The questions of agents, plugins and servers. What is asked about comes from others: it is shown as plain text.

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { answer, thread } from "./app";
import type { Json } from "./rpc";
import type { Question } from "./thread";
import { link, plain } from "./text";
import { Changes } from "./items";

type Choice = { key: string; label: string; detail?: string; value: Json; kind?: "main" | "no" };

const quiet = 400; // ms in which nothing was typed before keys and clicks count

// useArmed reports whether a question was seen for a moment.
function useArmed(id: string): boolean {
  const [armed, arm] = useState("");
  useEffect(() => {
    let timer = setTimeout(() => arm(id), quiet);
    const again = () => {
      clearTimeout(timer);
      timer = setTimeout(() => arm(id), quiet);
    };
    addEventListener("keydown", again);
    return () => {
      clearTimeout(timer);
      removeEventListener("keydown", again);
    };
  }, [id]);
  return armed === id;
}

const Row = ({ label, children }: { label: string; children: ComponentChildren }): VNode => (
  <div class="row"><dt>{label}</dt><dd>{children}</dd></div>
);

function Profile({ of }: { of: Json }): VNode {
  const rows: VNode[] = [];
  if (of?.network?.enabled) rows.push(<Row label="network">access to the network</Row>);
  for (const path of of?.fileSystem?.read ?? []) rows.push(<Row label="read"><code>{plain(path)}</code></Row>);
  for (const path of of?.fileSystem?.write ?? []) rows.push(<Row label="write"><code>{plain(path)}</code></Row>);
  for (const e of of?.fileSystem?.entries ?? []) rows.push(<Row label={String(e.access)}><code>{plain(JSON.stringify(e.path))}</code></Row>);
  return <>{rows}</>;
}

function commandChoices(p: Json): Choice[] {
  const out: Choice[] = [];
  for (const d of p.availableDecisions?.length ? p.availableDecisions : ["accept", "decline"]) {
    const value = { decision: d };
    if (d === "accept") out.push({ key: "y", label: "Yes, this time", value, kind: "main" });
    else if (d === "acceptForSession") out.push({ key: "s", label: "Yes, in this thread", value });
    else if (d === "decline") out.push({ key: "n", label: "No", value, kind: "no" });
    else if (d.acceptWithExecpolicyAmendment) {
      const words = d.acceptWithExecpolicyAmendment.execpolicy_amendment ?? [];
      out.push({ key: "a", label: "Yes, always", detail: "adds to your rules: " + plain(p.proposedRule ?? words.join(" ") + " …"), value });
    } else if (d.applyNetworkPolicyAmendment) {
      const a = d.applyNetworkPolicyAmendment.network_policy_amendment;
      out.push(a?.action === "allow"
        ? { key: "a", label: "Yes, always", detail: `adds to your rules: ${plain(a.host)} is allowed`, value }
        : { key: "d", label: "No, never", detail: `adds to your rules: ${plain(a?.host ?? "")} is refused`, value });
    }
  }
  return out;
}

function view(q: Question): { title: string; body: ComponentChildren; choices: Choice[]; cancel: Json } {
  const p = q.params;
  const decide = (decision: Json) => ({ decision });
  switch (q.method) {
    case "item/commandExecution/requestApproval":
      return {
        title: p.kind === "writeStdin" ? "May this be typed into a running command?" : p.networkApprovalContext ? "May it connect?" : "May this command run?",
        body: (
          <>
            {p.command != null ? <pre class="command" tabIndex={0}>{plain(p.command)}</pre> : null}
            <dl>
              {p.networkApprovalContext ? <Row label="to">{plain(p.networkApprovalContext.protocol + " " + p.networkApprovalContext.host)}</Row> : null}
              {p.cwd ? <Row label="in"><code>{plain(p.cwd)}</code></Row> : null}
              {p.reason ? <Row label="because">{plain(p.reason)}</Row> : null}
              <Profile of={p.additionalPermissions} />
            </dl>
          </>
        ),
        choices: commandChoices(p), cancel: decide("cancel"),
      };
    case "item/fileChange/requestApproval": {
      const item = thread.value?.item(q.turn, q.item);
      return {
        title: "May these files be changed?",
        body: (
          <>
            <dl>
              {p.reason ? <Row label="because">{plain(p.reason)}</Row> : null}
              {p.grantRoot ? <Row label="makes writable"><code>{plain(p.grantRoot)}</code></Row> : null}
            </dl>
            {item?.body?.changes ? <Changes changes={item.body.changes} open /> : null}
          </>
        ),
        choices: [
          { key: "y", label: "Yes, this time", value: decide("accept"), kind: "main" },
          { key: "s", label: "Yes, in this thread", value: decide("acceptForSession") },
          { key: "n", label: "No", value: decide("decline"), kind: "no" },
        ],
        cancel: decide("cancel"),
      };
    }
    case "item/permissions/requestApproval": {
      const no = { permissions: {}, scope: "turn" };
      return {
        title: "May the agent have these permissions?",
        body: <dl><Profile of={p.permissions} /><Row label="in"><code>{plain(p.cwd ?? "")}</code></Row>{p.reason ? <Row label="because">{plain(p.reason)}</Row> : null}</dl>,
        choices: [
          { key: "y", label: "Yes, for this turn", value: { permissions: p.permissions, scope: "turn" }, kind: "main" },
          { key: "s", label: "Yes, for this thread", value: { permissions: p.permissions, scope: "session" } },
          { key: "n", label: "No", value: no, kind: "no" },
        ],
        cancel: no,
      };
    }
    case "item/tool/requestUserInput":
      return { title: "The agent asks", body: <Input q={q} />, choices: [], cancel: { answers: {} } };
    case "mcpServer/elicitation/request": {
      const accept = (content: Json) => ({ action: "accept", content });
      const no: Choice = { key: "n", label: "No", value: { action: "decline", content: null }, kind: "no" };
      if (p.mode === "url") {
        const url = link(p.url);
        return {
          title: `The server ${plain(p.serverName)} asks`,
          body: <><p>{plain(p.message)}</p><p>{url ? <a href={url} target="_blank" rel="noopener noreferrer">{plain(p.url)}</a> : <code>{plain(p.url)}</code>}</p></>,
          choices: [{ key: "y", label: "I have done that", value: accept(null), kind: "main" }, no], cancel: { action: "cancel", content: null },
        };
      }
      return { title: `The server ${plain(p.serverName)} asks`, body: <Form q={q} />, choices: [], cancel: { action: "cancel", content: null } };
    }
  }
  return { title: "A question that this page does not know", body: null, choices: [], cancel: null };
}

type TextProps = { secret: boolean; name: string; label: string; placeholder: string };

const Text = ({ secret, name, label, placeholder }: TextProps): VNode =>
  secret
    ? <input type="password" name={name} autocomplete="off" aria-label={label} placeholder={placeholder} />
    : <input type="text" name={name} autocomplete="off" aria-label={label} placeholder={placeholder} />;

const Value = ({ type, name, required }: { type: string; name: string; required: boolean }): VNode =>
  type === "integer" || type === "number"
    ? <input type="number" step={type === "integer" ? 1 : "any"} name={name} required={required} autocomplete="off" />
    : <input type="text" name={name} required={required} autocomplete="off" />;

// Input asks what an agent wants to know.
function Input({ q }: { q: Question }): VNode {
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const data = new FormData(e.currentTarget as HTMLFormElement);
    const answers: Json = {};
    for (const one of q.params.questions) {
      const other = String(data.get("other:" + one.id) ?? "");
      const chosen = other || String(data.get(one.id) ?? "");
      if (chosen) answers[one.id] = { answers: [chosen] };
    }
    answer(q, { answers });
  };
  return (
    <form onSubmit={submit}>
      {q.params.questions.map((one: Json) => (
        <fieldset key={one.id}>
          <legend>{plain(one.question)}</legend>
          {(one.options ?? []).map((o: Json) => (
            <label><input type="radio" name={one.id} value={o.label} /> <span>{plain(o.label)} <span class="dim">{plain(o.description ?? "")}</span></span></label>
          ))}
          {one.isOther || !one.options?.length ? (
            <Text secret={one.isSecret} name={"other:" + one.id} label={plain(one.question)} placeholder={one.options?.length ? "another answer" : ""} />
          ) : null}
        </fieldset>
      ))}
      <button class="main" type="submit">Answer</button>
    </form>
  );
}

// Form asks what a server wants to know, as a JSON Schema describes it.
function Form({ q }: { q: Question }): VNode {
  const schema = q.params.requestedSchema ?? {};
  const required: string[] = schema.required ?? [];
  const fields = Object.entries<Json>(schema.properties ?? {});
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const data = new FormData(e.currentTarget as HTMLFormElement);
    const content: Json = {};
    for (const [name, p] of fields) {
      const v = data.get(name);
      if (p.type === "boolean") content[name] = v === "on";
      else if (v == null || v === "") continue;
      else content[name] = p.type === "integer" || p.type === "number" ? Number(v) : String(v);
    }
    answer(q, { action: "accept", content });
  };
  return (
    <form onSubmit={submit}>
      <p>{plain(q.params.message)}</p>
      {fields.map(([name, p]) => {
        const choices: Json[] = p.oneOf ?? (p.enum ?? []).map((c: string, i: number) => ({ const: c, title: p.enumNames?.[i] ?? c }));
        const title = plain(p.title ?? name);
        return (
          <label key={name} class="field">
            <span>{title}{required.includes(name) ? "" : <span class="dim"> (optional)</span>}</span>
            {p.description ? <span class="dim">{plain(p.description)}</span> : null}
            {choices.length ? (
              <select name={name} required={required.includes(name)}><option value="" />{choices.map((c) => <option value={c.const}>{plain(c.title ?? c.const)}</option>)}</select>
            ) : p.type === "boolean" ? (
              <input type="checkbox" name={name} />
            ) : (
              <Value type={p.type} name={name} required={required.includes(name)} />
            )}
          </label>
        );
      })}
      <div class="choices">
        <button class="main" type="submit">Answer</button>
        <button type="button" onClick={() => answer(q, { action: "decline", content: null })}>No</button>
      </div>
    </form>
  );
}

export function QuestionCard({ q, more }: { q: Question; more: number }): VNode {
  const armed = useArmed(q.id);
  const v = view(q);
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    // The keys of the answers work at once, unless a message is being written.
    const at = document.activeElement;
    if (armed && (at === document.body || (at instanceof HTMLTextAreaElement && at.value === ""))) card.current!.focus();
  }, [armed]);
  useEffect(() => () => document.querySelector<HTMLElement>(".composer textarea")?.focus(), [q.id]);
  useEffect(() => {
    if (!armed) return;
    const press = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest?.("input, textarea, select")) return;
      const c = v.choices.find((c) => c.key === e.key);
      if (c) {
        e.preventDefault();
        answer(q, c.value);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  return (
    <section class="question" ref={card} tabIndex={-1} role="alertdialog" aria-labelledby="question-title" aria-describedby="question-about">
      <h2 id="question-title">{v.title}</h2>
      <div class="about" id="question-about">{v.body}</div>
      <div class="choices">
        {[...v.choices].sort((a, b) => Number(!!a.detail) - Number(!!b.detail)).map((c) => (
          <button key={c.key} type="button" class={c.detail ? "detailed" : c.kind} disabled={!armed} onClick={() => answer(q, c.value)} aria-keyshortcuts={c.key}>
            {c.label} <kbd>{c.key}</kbd>
            {c.detail ? <small>{c.detail}</small> : null}
          </button>
        ))}
        <button type="button" class="quiet" disabled={!armed} onClick={() => answer(q, v.cancel)}>Refuse and stop</button>
      </div>
      {more > 0 ? <p class="dim">{more} more {more === 1 ? "question" : "questions"}</p> : null}
    </section>
  );
}
