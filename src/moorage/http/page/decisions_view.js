// The stream of decisions, newest first.

import { get, podList } from "./api.js";
import { comeBackAfter, follow, state as stream } from "./decision_stream.js";
import { el, link, nodeLink, podLink, say, table, tableRow } from "./dom.js";
import { count, duration, plural, timeOfDay } from "./format.js";
import { NamespaceFilter } from "./namespace_filter.js";

const SHOWN = 200;
const MOST = 2000; // where older ones were asked for
const MISSED = 1000; // so many does the stream tell to those who come back
const PAGE = 100;
const RETRY = 5;
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
  { title: "Message", kind: "message", cell: (decision) => decision.message ?? "" },
];

class Decisions {
  constructor(view) {
    this.view = view;
    this.pod = view.params.get("pod") ?? "";
    this.items = [];
    this.fresh = [];
    this.last = null; // the latest decision that is known, of whichever pod
    this.extended = false; // were older ones asked for?
    this.cut = false; // are some of the fresh ones left out?
    this.paused = false;
    this.news = 0;
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
          this.filtered();
        },
      },
      el("label", {}, "Only of pod ", filter),
      " ",
      el("button", { type: "submit" }, "Filter"),
    );
    this.namespace = new NamespaceFilter(view, () => this.filtered());
    this.older = el(
      "button",
      { type: "button", hidden: true, onclick: () => view.guarded(() => this.loadOlder()) },
      "Show older",
    );
    const whole = table("Newest first", COLUMNS, []);
    this.body = whole.querySelector("tbody");
    view.root.append(
      el("div", { class: "controls" }, this.pause, this.namespace.label, form),
      this.status,
      whole,
      this.older,
    );
  }

  async start() {
    this.loading = this.view.poll(RETRY, () => this.load(), { once: true });
    await this.loading.ready;
    const { signal } = this.view;
    if (signal.aborted) return;
    let known = false;
    const stop = follow(
      (decision) => this.add(decision),
      (live) => {
        this.live = live;
        this.tellStatus();
        if (live && known && this.last) this.view.guarded(() => this.check());
        known ||= live;
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

  // Others are to be shown.
  filtered() {
    this.clear();
    this.loading.anew();
  }

  asked(more) {
    return get(
      ["decisions"],
      { pod: this.pod, namespace: this.namespace.value, ...more },
      this.view.signal,
    );
  }

  clear() {
    this.items = [];
    this.fresh = [];
    this.news = 0;
    this.cut = false;
    this.extended = false;
    this.body.replaceChildren();
    this.older.hidden = true;
    this.tellStatus();
  }

  async load() {
    const wanted = `${this.namespace.value} ${this.pod}`;
    const [answer, pods] = await Promise.all([
      this.asked({ limit: PAGE }),
      podList({ state: "all" }, 1, this.view.signal),
    ]);
    if (wanted !== `${this.namespace.value} ${this.pod}`) return; // others were asked for meanwhile
    this.namespace.offer(pods.namespaces);
    const newest = answer.items[0]?.number ?? 0;
    // What came while the answer was under way is not in it.
    const since = this.fresh.filter((decision) => decision.number > newest);
    const cut = this.cut && since.length > 0;
    this.clear();
    this.fresh = since;
    this.news = since.length;
    this.cut = cut;
    this.items = answer.items;
    if (newest > (this.last?.number ?? 0)) [this.last] = answer.items;
    this.older.hidden = !answer.continue;
    this.body.replaceChildren(...this.items.map((decision) => this.line(decision)));
    this.tellStatus();
  }

  // The stream is back. A scheduler that began anew numbers its decisions from 1 on, and what is
  // shown is of the one before; after a long time the stream does not tell all that was missed.
  async check() {
    const { last } = this;
    const newest = async (before) =>
      (await get(["decisions"], { limit: 1, before }, this.view.signal)).items[0];
    const latest = (await newest())?.number ?? 0;
    if (latest >= last.number && latest - last.number <= MISSED) {
      const same = await newest(last.number + 1);
      if (same?.number === last.number && Math.abs(same.time - last.time) < 0.001) return;
    }
    this.last = null;
    comeBackAfter(0);
    this.clear();
    await this.loading.anew();
    if (this.last) comeBackAfter(this.last.number);
  }

  async loadOlder() {
    const before = this.items.at(-1)?.number;
    const answer = await this.asked({ limit: PAGE, before });
    this.items.push(...answer.items);
    this.extended = true;
    const lines = answer.items.map((decision) => this.line(decision));
    this.body.append(...lines);
    const focused = document.activeElement === this.older;
    this.older.hidden = !answer.continue;
    if (focused && this.older.hidden) lines[0]?.querySelector("a").focus();
    this.tellStatus();
  }

  add(decision) {
    if (decision.number > (this.last?.number ?? 0)) this.last = decision;
    if (this.pod && decision.pod !== this.pod) return;
    if (!this.namespace.allows(decision.pod)) return;
    if (decision.number <= (this.fresh.at(-1) ?? this.items[0])?.number) return;
    this.fresh.push(decision);
    this.untold += 1;
    this.news += 1;
    // A burst leaves only what can be shown; the older ones are a request away.
    const over = this.fresh.length - SHOWN * (this.paused ? 5 : 1);
    if (over <= 0) return;
    this.fresh.splice(0, this.paused ? Math.max(over, SHOWN) : over);
    this.cut = true;
  }

  draw() {
    if (this.paused || !this.fresh.length || this.view.signal.aborted) {
      if (this.paused) this.tellStatus();
      return;
    }
    const fresh = this.fresh.reverse();
    this.fresh = [];
    this.news = 0;
    const lines = fresh.map((decision) => this.line(decision));
    for (const line of lines) line.classList.add("fresh");
    if (this.cut) {
      // There is a gap below these, which "Show older" closes.
      this.clear();
      this.older.hidden = false;
    }
    this.body.prepend(...lines);
    this.items.unshift(...fresh);
    while (
      this.items.length > (this.extended ? MOST : SHOWN) &&
      this.body.lastElementChild !== document.activeElement?.closest("tr")
    ) {
      this.items.pop();
      this.body.lastElementChild.remove();
      this.older.hidden = false;
    }
    this.tellStatus();
  }

  line(decision) {
    return tableRow(COLUMNS, decision, { "data-number": decision.number });
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
      ? `Paused, ${count(this.news)} new.`
      : this.live
        ? "Live."
        : stream.refused
          ? "Not connected."
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
