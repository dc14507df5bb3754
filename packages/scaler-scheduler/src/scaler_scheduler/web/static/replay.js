// The time scrubber of a recorded event log.

import { h, momentField, setText } from "./dom.js";

const SPEEDS = [0.25, 1, 4, 16, 64];
const STEP_SECONDS = 10;

export class Replay {
  constructor(element, send) {
    this.element = element;
    this.send = (wish) => send({ replay: wish });
  }

  show(replay) {
    this.element.hidden = !replay;
    if (!replay) return;
    this.replay = replay;
    if (!this.slider) this.build();
    this.slider.min = replay.start;
    this.slider.max = replay.end;
    if (!this.dragging) this.slider.value = replay.position;
    setText(this.play, replay.playing ? "❚❚" : "▶");
    this.play.setAttribute("aria-label", replay.playing ? "Pause" : "Play");
    this.time.replaceChildren(h("b", {}, replay.text), `, ${replay.reading || `${replay.length} in all`}`);
    this.speed.value = replay.speed;
    this.showMarks(replay.marks ?? []);
  }

  // Where tasks failed.
  showMarks(marks) {
    const text = marks.join();
    if (text === this.marksShown) return;
    this.marksShown = text;
    this.marks.replaceChildren(...marks.map((share) => h("i", { style: { left: `${share * 100}%` } })));
    this.marks.title = marks.length ? "Tasks failed at the marks" : "";
  }

  build() {
    const button = (text, title, act) => h("button", { type: "button", class: "tool", title, "aria-label": title, onclick: act }, text);
    this.play = button("▶", "Play or pause (space)", () => this.toggle());
    this.slider = h("input", {
      type: "range", step: "any", "aria-label": "Time", oninput: () => { this.dragging = true; this.seek(Number(this.slider.value)); }, onchange: () => { this.dragging = false; },
    });
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.moment = momentField((text) => this.send({ go_to: text }));
    this.time = h("output");
    this.speed = h("select", { class: "tool", "aria-label": "Speed", onchange: () => this.send({ speed: Number(this.speed.value) }) }, SPEEDS.map((speed) => h("option", { value: speed }, `${speed}×`)));
    this.element.append(this.play, button("«", "Ten seconds back (<)", () => this.step(-STEP_SECONDS)), button("»", "Ten seconds on (>)", () => this.step(STEP_SECONDS)), h("div", { class: "bar" }, this.slider, this.marks), this.moment, this.time, this.speed);
  }

  // Whether there is a field for the time.
  focusMoment() {
    if (!this.replay || this.element.hidden) return false;
    this.moment.focus();
    return true;
  }

  toggle() { this.send({ play: !this.replay.playing }); }
  seek(time) { this.send({ seek: time }); }
  step(seconds) { this.seek(this.replay.position + seconds); }

  key(event) {
    if (!this.replay || this.element.hidden) return;
    if (event.key === " " && !event.target.matches("button, a, canvas")) { event.preventDefault(); this.toggle(); }
    if (event.key === "<" || event.key === ",") this.step(-STEP_SECONDS);
    if (event.key === ">" || event.key === ".") this.step(STEP_SECONDS);
  }
}
