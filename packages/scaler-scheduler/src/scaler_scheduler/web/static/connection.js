// The websocket to scaler_ui: says what this page shows, and gets it again and again. It connects again by itself.

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 3000;

// scaler_ui says something each second to a page that somebody sees. Seconds are counted while this page runs: after a
// standstill of its own, what came meanwhile is read first.
const SILENT_SECONDS = 5;
const GIVEN_UP_SECONDS = 15;

export class Connection {
  constructor({ onHello, onPush, onStream, onOperated, onState, onRefused }) {
    this.handlers = { onHello, onPush, onStream, onOperated, onState, onRefused };
    this.watched = {};
    this.waitMs = FIRST_WAIT_MS;
    this.silentSeconds = 0;
    document.addEventListener("visibilitychange", () => this.sendWatch());
    setInterval(() => this.countSilence(), 1000);
    this.connect();
  }

  connect() {
    const url = new URL("socket", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.hash = "";
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.opened();
    this.socket.onmessage = (event) => this.received(event.data);
    this.socket.onclose = () => this.closed();
  }

  opened() {
    this.waitMs = FIRST_WAIT_MS;
    this.silentSeconds = 0;
    this.handlers.onState(true);
    this.sendWatch();
  }

  closed() {
    this.handlers.onState(false);
    this.askWhy();
    setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(LONGEST_WAIT_MS, this.waitMs * 2);
  }

  // A socket does not say why it was not opened.
  async askWhy() {
    try {
      const answer = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
      this.handlers.onRefused(answer.status === 403);
    } catch {
      this.handlers.onRefused(false);
    }
  }

  countSilence() {
    const expects = this.socket.readyState === WebSocket.OPEN && !document.hidden;
    this.silentSeconds = expects ? this.silentSeconds + 1 : 0;
    if (this.silentSeconds === SILENT_SECONDS) this.handlers.onState(false);
    if (this.silentSeconds === GIVEN_UP_SECONDS) this.giveUp();
  }

  // A close would wait for an answer that may never come.
  giveUp() {
    this.socket.onopen = this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
    this.closed();
  }

  heard() {
    if (this.silentSeconds >= SILENT_SECONDS) this.handlers.onState(true);
    this.silentSeconds = 0;
  }

  received(data) {
    this.heard();
    if (typeof data !== "string") return this.receivedStream(data);
    const message = JSON.parse(data);
    if (message.hello) return this.handlers.onHello(message.hello);
    if (message.alive) return;
    if (message.operated) return this.handlers.onOperated(message.operated);
    this.handlers.onPush(message);
    this.send({ seen: message.number });
  }

  receivedStream(data) {
    const length = new DataView(data).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    this.handlers.onStream(head, data.slice(4 + length));
  }

  // What is visible, by a key of the page's own. Nothing while nobody looks at the page.
  watch(watched) {
    this.watched = watched;
    if (this.waiting) return;
    this.waiting = true;
    queueMicrotask(() => { this.waiting = false; this.sendWatch(); });
  }

  sendWatch() {
    this.send({ watch: document.hidden ? {} : this.watched });
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
