// Actions on the cluster: a dialog that asks scaler_ui for the question, and carries out what was confirmed.

import { h } from "./dom.js";
import { showReport } from "./profile.js";

export class Actions {
  // offered: by table its actions, as scaler_ui says; send: to scaler_ui.
  constructor(dialog, send) {
    Object.assign(this, { dialog, send, offered: {}, menu: null });
    dialog.addEventListener("close", () => { this.asked = this.menu = null; });
  }

  // What a table needs to offer them; null if it has none.
  of({ name, columns }) {
    const offered = this.offered[name];
    if (!offered) return null;
    const places = new Map(columns.map((column, index) => [column.key, index]));
    const text = (values, key) => [values[places.get(key)]].flat()[0];
    return { open: (values) => this.open(offered.map(([action, label, keys, value]) => {
      const parts = keys.map((key) => text(values, key));
      return { action, label, value, target: parts.every(Boolean) ? parts.join("/") : "" };
    }).filter((each) => each.target)) };
  }

  // The button of what offers these actions: [action, label, target, value]; null if there are none, or pages may only watch.
  button(actions) {
    if (!actions.length || !Object.keys(this.offered).length) return null;
    const open = () => this.open(actions.map(([action, label, target, value]) => ({ action, label, target, value })));
    return h("button", { type: "button", class: "more", title: "Actions", "aria-label": "Actions", onclick: open }, "⋯");
  }

  // actions: {action, label, target, value}; value: what to say of the number that it needs.
  open(actions) {
    if (!actions.length) return;
    if (actions.length === 1) this.begin(actions[0]);
    else this.choose(actions);
    this.dialog.showModal();
  }

  // The menu of several actions, to which questions lead back.
  choose(actions) {
    this.asked = this.menu = null;
    this.show(actions[0].target, "", actions.map((each) => [each.label, () => this.begin(each)]));
    this.menu = () => this.choose(actions);
  }

  begin(chosen) {
    if (chosen.value) this.askForValue(chosen);
    else this.ask(chosen);
  }

  askForValue(chosen) {
    const step = chosen.value.startsWith("weight") ? "any" : 1;
    const input = h("input", { type: "number", step, required: true, class: "filter", "aria-label": chosen.value });
    const next = () => { if (input.reportValidity()) this.ask({ ...chosen, number: Number(input.value) }); };
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); next(); } });
    this.show(chosen.target, `${chosen.label}: ${chosen.value}`, [["Continue", next]]);
    this.dialog.querySelector(".answer").after(input);
    input.focus();
  }

  ask(chosen) {
    this.asked = chosen;
    this.show(chosen.target, chosen.label.startsWith("Profile") ? "Sampling for 5 seconds ..." : "One moment ...", []);
    this.tell(false);
  }

  confirm() {
    this.show(this.asked.target, "One moment ...", []);
    this.tell(true);
  }

  tell(isConfirmed) {
    const { action, target, number } = this.asked;
    this.send({ operate: { action, target, value: number ?? 0, is_confirmed: isConfirmed } });
  }

  // The answer of scaler_ui.
  take({ question, text, is_done, report, flame }) {
    if (!this.asked) return;
    const { target, label } = this.asked;
    if (question) this.show(target, question, [[label, () => this.confirm()]]);
    else this.show(target, text, [], is_done ? "good" : "bad");
    if (report) showReport(this.dialog, report, flame);
  }

  // The connection is lost: an answer will not come.
  lose() {
    if (this.asked) this.show(this.asked.target, "The connection was lost. Check whether the action was carried out.", [], "bad");
  }

  show(target, text, choices, kind = "") {
    const back = choices.length && this.menu ? this.menu : () => this.dialog.close();
    const close = h("button", { type: "button", class: "tool", onclick: back }, choices.length ? "Back" : "Close");
    const buttons = choices.map(([label, act]) => h("button", { type: "button", class: "tool act", onclick: act }, label));
    this.dialog.classList.remove("wide");
    this.dialog.replaceChildren(h("h1", {}, target), h("p", { class: `answer ${kind}`, role: "status" }, text), h("div", { class: "choices" }, buttons, close));
    close.focus();
  }
}
