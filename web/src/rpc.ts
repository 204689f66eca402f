// The connection to the app server: JSON-RPC over a websocket that is established again whenever it was lost.

export type Json = any;

export class RpcError extends Error {
  constructor(readonly code: number, message: string, readonly data?: Json) {
    super(message);
  }
  // The next step that the server suggests, or "".
  get next(): string {
    return typeof this.data?.next === "string" ? this.data.next : "";
  }
}

export type Notification = { method: string; params: Json; seq: number; part: number };

export type State = "connecting" | "up" | "lost" | "refused";

export type Handlers = {
  state(s: State): void;
  notified(n: Notification): void;
  // A request of the server, which answer() answers.
  asked(id: string, method: string, params: Json): void;
};

// Requests of the server that the page can answer.
const questions = [
  "item/commandExecution/requestApproval",
  "item/fileChange/requestApproval",
  "item/permissions/requestApproval",
  "item/tool/requestUserInput",
  "mcpServer/elicitation/request",
];

const firstPause = 200;
const longestPause = 5000;

type Waiting = { resolve(v: Json): void; reject(e: Error): void };

export class Conn {
  private socket: WebSocket | null = null;
  private next = 1;
  private waiting = new Map<number, Waiting>();
  private ready: (() => void)[] = []; // of calls that wait for the connection
  private up = false;
  private pause = firstPause;
  private timer = 0;
  private ids = new Map<string, Json>(); // of questions, as they were sent

  constructor(private readonly token: string, private readonly on: Handlers) {}

  start(): void {
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.hurry();
    });
    this.connect();
  }

  // hurry tries at once what waits for the next attempt.
  private hurry(): void {
    if (this.timer) {
      clearTimeout(this.timer);
      this.timer = 0;
      this.connect();
    }
  }

  private connect(): void {
    const s = new WebSocket(`ws://${location.host}/rpc`, ["gantry", "token." + this.token]);
    this.socket = s;
    s.onopen = () => {
      this.send(0, "initialize", {
        clientInfo: { name: "gantry-web", title: "gantry web", version: "1" },
        capabilities: { experimentalApi: true, serverRequestMethods: questions },
      });
    };
    s.onmessage = (e) => this.message(JSON.parse(e.data));
    s.onclose = () => this.closed(s);
  }

  private async closed(s: WebSocket): Promise<void> {
    if (this.socket !== s) return;
    this.socket = null;
    this.up = false;
    this.ids.clear();
    const lost = new RpcError(0, "the connection was lost");
    for (const w of this.waiting.values()) w.reject(lost);
    this.waiting.clear();
    this.on.state("lost");
    try {
      // A refused websocket looks like any other end to a page.
      const r = await fetch("/session", { headers: { Authorization: "Bearer " + this.token } });
      if (r.status === 401) {
        this.on.state("refused");
        return;
      }
    } catch {
      // nothing answers: try again
    }
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.connect();
    }, this.pause) as unknown as number;
    this.pause = Math.min(2 * this.pause, longestPause);
  }

  private message(m: Json): void {
    if (m.method !== undefined && m.id !== undefined) {
      this.ids.set(String(m.id), m.id);
      this.on.asked(String(m.id), m.method, m.params);
      return;
    }
    if (m.method !== undefined) {
      if (m.method === "serverRequest/resolved") this.ids.delete(m.params?.requestId);
      this.on.notified({ method: m.method, params: m.params, seq: m.seq ?? 0, part: m.part ?? 0 });
      return;
    }
    if (m.id === 0) {
      if (m.error) {
        this.socket?.close();
        return;
      }
      this.up = true;
      this.pause = firstPause;
      this.socket?.send(JSON.stringify({ method: "initialized" }));
      this.on.state("up");
      for (const go of this.ready.splice(0)) go();
      return;
    }
    const w = this.waiting.get(m.id);
    this.waiting.delete(m.id);
    if (m.error) w?.reject(new RpcError(m.error.code, m.error.message, m.error.data));
    else w?.resolve(m.result);
  }

  private send(id: number, method: string, params: Json): void {
    this.socket?.send(JSON.stringify({ id, method, params }));
  }

  // call calls a method, at first waiting until the connection is up.
  async call(method: string, params: Json): Promise<Json> {
    while (!this.up) await new Promise<void>((go) => this.ready.push(go));
    return new Promise((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, { resolve, reject });
      this.send(id, method, params);
    });
  }

  // answer answers a question, and reports whether it was still open.
  answer(id: string, result: Json): boolean {
    const sent = this.ids.get(id);
    if (sent === undefined || !this.up) return false;
    this.ids.delete(id);
    this.socket?.send(JSON.stringify({ id: sent, result }));
    return true;
  }
}
