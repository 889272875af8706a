// The stream of decisions, newest first.

import { get } from "./api.js";
import { follow } from "./decision_stream.js";
import { el, link, nodeLink, podLink, say, table } from "./dom.js";
import { count, duration, plural, timeOfDay } from "./format.js";

const SHOWN = 200;
const PAGE = 100;
const REDRAW = 250;
const TELL = 10000;

export async function decisionsView(view) {
  view.title("Decisions");
  await new Decisions(view).start();
}

export function result(decision) {
  const kind = { scheduled: "good", unschedulable: "warn", error: "bad" }[decision.result] ?? "";
  return el("span", { class: kind || null }, decision.result);
}

const COLUMNS = [
  {
    title: "Number",
    cell: (decision) => link(["decisions", String(decision.number)], String(decision.number)),
  },
  { title: "Time", kind: "name", cell: (decision) => timeOfDay(decision.time) },
  { title: "Pod", kind: "name", cell: (decision) => podLink(decision.pod) },
  { title: "Result", kind: "name", cell: result },
  { title: "Node", kind: "name", cell: (decision) => nodeLink(decision.node) },
  {
    title: "Feasible",
    number: true,
    cell: (decision) => `${count(decision.feasible)} of ${count(decision.nodes)}`,
  },
  { title: "Score", number: true, cell: (decision) => decision.score ?? "" },
  { title: "Attempt", number: true, cell: (decision) => decision.attempts ?? "" },
  {
    title: "Took",
    number: true,
    cell: (decision) => (decision.seconds ? duration(decision.seconds) : ""),
  },
  { title: "Message", cell: (decision) => decision.message ?? "" },
];

class Decisions {
  constructor(view) {
    this.view = view;
    this.pod = view.params.get("pod") ?? "";
    this.items = [];
    this.fresh = [];
    this.paused = false;
    this.untold = 0;
    this.status = el("p", { class: "quiet" });
    this.pause = el(
      "button",
      { type: "button", "aria-pressed": "false", onclick: () => this.toggle() },
      "Pause",
    );
    const filter = el("input", {
      id: "decisions-pod",
      type: "search",
      value: this.pod,
      placeholder: "namespace/name",
      autocomplete: "off",
      spellcheck: "false",
    });
    const form = el(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          this.pod = filter.value.trim();
          view.keep({ pod: this.pod });
          view.guarded(() => this.load());
        },
      },
      el("label", {}, "Only of pod ", filter),
      " ",
      el("button", { type: "submit" }, "Filter"),
    );
    this.older = el(
      "button",
      { type: "button", hidden: true, onclick: () => view.guarded(() => this.loadOlder()) },
      "Show older",
    );
    const whole = table("Newest first", COLUMNS, []);
    this.body = whole.querySelector("tbody");
    view.root.append(
      el("div", { class: "controls" }, this.pause, form),
      this.status,
      whole,
      this.older,
    );
  }

  async start() {
    await this.load();
    const { signal } = this.view;
    const stop = follow(
      (decision) => this.add(decision),
      (live) => {
        this.live = live;
        this.tellStatus();
      },
      this.items[0]?.number ?? 0,
    );
    const drawing = setInterval(() => this.draw(), REDRAW);
    const telling = setInterval(() => this.tell(), TELL);
    signal.addEventListener("abort", () => {
      stop();
      clearInterval(drawing);
      clearInterval(telling);
    });
  }

  async load() {
    const answer = await get(["decisions"], { limit: PAGE, pod: this.pod }, this.view.signal);
    this.items = answer.items;
    this.fresh = [];
    this.older.hidden = !answer.continue;
    this.body.replaceChildren(...this.items.map((decision) => this.line(decision)));
    this.tellStatus();
  }

  async loadOlder() {
    const before = this.items.at(-1)?.number;
    const answer = await get(
      ["decisions"],
      { limit: PAGE, pod: this.pod, before },
      this.view.signal,
    );
    this.items.push(...answer.items);
    this.body.append(...answer.items.map((decision) => this.line(decision)));
    this.older.hidden = !answer.continue;
    this.tellStatus();
  }

  add(decision) {
    if (this.pod && decision.pod !== this.pod) return;
    if (decision.number <= (this.fresh.at(-1) ?? this.items[0])?.number) return;
    this.fresh.push(decision);
    this.untold += 1;
    // A burst leaves only what can be shown; the older ones are a request away.
    if (!this.paused && this.fresh.length > SHOWN) this.fresh.splice(0, this.fresh.length - SHOWN);
    if (this.paused && this.fresh.length > SHOWN * 5) this.fresh.splice(0, SHOWN);
  }

  draw() {
    if (this.paused || !this.fresh.length || this.view.signal.aborted) {
      if (this.paused) this.tellStatus();
      return;
    }
    const fresh = this.fresh.reverse();
    this.fresh = [];
    const lines = fresh.map((decision) => this.line(decision));
    for (const line of lines) line.classList.add("fresh");
    this.body.prepend(...lines);
    this.items.unshift(...fresh);
    while (
      this.items.length > Math.max(SHOWN, PAGE) &&
      this.body.lastElementChild !== document.activeElement?.closest("tr")
    ) {
      this.items.pop();
      this.body.lastElementChild.remove();
      this.older.hidden = false;
    }
    this.tellStatus();
  }

  line(decision) {
    const cells = COLUMNS.map((column, index) => {
      const kind = [column.number ? "number" : "", column.kind ?? ""].join(" ").trim() || null;
      return el(
        index ? "td" : "th",
        { class: kind, scope: index ? null : "row" },
        column.cell(decision),
      );
    });
    return el("tr", { "data-number": decision.number }, cells);
  }

  toggle() {
    this.paused = !this.paused;
    this.pause.setAttribute("aria-pressed", String(this.paused));
    this.pause.textContent = this.paused ? "Resume" : "Pause";
    this.draw();
    this.tellStatus();
  }

  tellStatus() {
    const state = this.paused
      ? `Paused, ${count(this.fresh.length)} new.`
      : this.live
        ? "Live."
        : "Not connected; trying again.";
    this.status.textContent = `${state} ${plural(this.items.length, "decision")} shown.`;
  }

  tell() {
    if (!this.untold || this.paused) return;
    const [latest] = this.items;
    const where = latest?.node ? ` on ${latest.node}` : "";
    say(
      `${plural(this.untold, "new decision")}; the latest: ${latest?.pod} ${latest?.result}${where}`,
    );
    this.untold = 0;
  }
}
