// Actions on the cluster: a dialog that asks scaler_ui for the question, and carries out what was confirmed.

import { h } from "./dom.js";

export class Actions {
  // offered: by table its column of targets and its actions, as scaler_ui says; send: to scaler_ui.
  constructor(dialog, send) {
    Object.assign(this, { dialog, send, offered: {} });
    dialog.addEventListener("close", () => { this.asked = null; });
  }

  // What a table needs to offer them; null if it has none.
  of(table) {
    const offered = this.offered[table];
    return offered ? { column: offered.column, open: (target) => this.open(target, offered.actions) } : null;
  }

  open(target, actions) {
    if (actions.length === 1) this.ask(target, actions[0]);
    else this.show(target, "", actions.map((action) => [action[1], () => this.ask(target, action)]));
    this.dialog.showModal();
  }

  ask(target, [action, label]) {
    this.asked = { action, target, label };
    this.show(target, "One moment ...", []);
    this.send({ operate: { action, target, is_confirmed: false } });
  }

  confirm() {
    const { action, target } = this.asked;
    this.show(target, "One moment ...", []);
    this.send({ operate: { action, target, is_confirmed: true } });
  }

  // The answer of scaler_ui.
  take({ question, text, is_done }) {
    if (!this.asked) return;
    const { target, label } = this.asked;
    if (question) this.show(target, question, [[label, () => this.confirm()]]);
    else this.show(target, text, [], is_done ? "good" : "bad");
  }

  // The connection is lost: an answer will not come.
  lose() {
    if (this.asked) this.show(this.asked.target, "The connection was lost. Look whether the action was carried out.", [], "bad");
  }

  show(target, text, choices, kind = "") {
    const close = h("button", { type: "button", class: "tool", onclick: () => this.dialog.close() }, choices.length ? "Back" : "Close");
    const buttons = choices.map(([label, act]) => h("button", { type: "button", class: "tool act", onclick: act }, label));
    this.dialog.replaceChildren(h("h1", {}, target), h("p", { class: `answer ${kind}`, role: "status" }, text), h("div", { class: "choices" }, buttons, close));
    close.focus();
  }
}
