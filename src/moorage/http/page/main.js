// Which view the address asks for, and what all views share: title, focus, troubles, polling.

import { configurationView } from "./configuration_view.js";
import { decisionView } from "./decision_view.js";
import { decisionsView } from "./decisions_view.js";
import { el, route, tellAges } from "./dom.js";
import { mapView } from "./map_view.js";
import { nodeView } from "./node_view.js";
import { podView } from "./pod_view.js";
import { queueView } from "./queue_view.js";
import { timeAsked } from "./sign_in.js";
import { startTheme } from "./theme.js";
import { throughputView } from "./throughput_view.js";

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const LONGEST_PAUSE = 60;
const LOADING = 500;
let leaving = new AbortController();
let first = true;

function viewFor(segments) {
  const [name, ...rest] = segments;
  if (name === "map" && rest.length === 0) return ["map", mapView];
  if (name === "nodes" && rest.length === 1) return ["map", nodeView];
  if (name === "queue" && rest.length === 0) return ["queue", queueView];
  if (name === "pods" && rest.length === 2) return ["queue", podView];
  if (name === "decisions" && rest.length === 0) return ["decisions", decisionsView];
  if (name === "decisions" && rest.length === 1) return ["decisions", decisionView];
  if (name === "throughput" && rest.length === 0) return ["throughput", throughputView];
  if (name === "configuration" && rest.length === 0) return ["configuration", configurationView];
  return ["", lostView];
}

function lostView(view) {
  view.title("No such view");
  view.root.append(el("p", {}, `${location.hash} leads nowhere; the views are above.`));
}

function parsed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const segments = path.split("/").filter(Boolean);
  try {
    return { segments: segments.map(decodeURIComponent), params: new URLSearchParams(query) };
  } catch {
    return { segments, params: new URLSearchParams() };
  }
}

class View {
  constructor(segments, params, signal) {
    this.segments = segments;
    this.params = params;
    this.signal = signal;
    this.heading = el("h1", { tabindex: -1 });
    this.root = el("div", { "data-loading": "" });
  }

  title(text) {
    this.heading.textContent = text;
    document.title = `${text} · Moorage`;
  }

  // Keep what was chosen in the address, without a step in the history.
  keep(params) {
    for (const [name, value] of Object.entries(params)) {
      if (value === "" || value === null || value === undefined) this.params.delete(name);
      else this.params.set(name, value);
    }
    history.replaceState(null, "", route(this.segments, Object.fromEntries(this.params)));
  }

  // Do `work` now and every so often while the page is seen; slow answers are asked for less often.
  // With `once` only until it succeeds, or is refused for good. Returns a function that does it at
  // once, and one that does so after what is under way: what was asked for may have changed.
  poll(seconds, work, { once = false } = {}) {
    let timer = 0;
    let running = null;
    const round = async () => {
      clearTimeout(timer);
      const begun = performance.now() - timeAsked();
      const error = await guarded(work, this.signal);
      if (this.signal.aborted || (once && (!error || isRefusal(error)))) return;
      const took = (performance.now() - timeAsked() - begun) / 1000;
      const pause = Math.max(seconds, Math.min(took * 20, LONGEST_PAUSE));
      timer = setTimeout(tick, pause * 1000);
    };
    const now = () => {
      running ??= round().finally(() => {
        running = null;
      });
      return running;
    };
    const anew = async () => {
      await running;
      if (!this.signal.aborted) await now();
    };
    const tick = () => {
      if (document.hidden) timer = setTimeout(tick, seconds * 1000);
      else now();
    };
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    return { now, anew, ready: now() };
  }

  async guarded(work) {
    await guarded(work, this.signal);
  }
}

// The trouble that `work` had, or null; it is shown until something succeeds.
async function guarded(work, signal) {
  try {
    await work();
    if (!signal.aborted) trouble.hidden = true;
    return null;
  } catch (error) {
    if (!signal.aborted) tell(error);
    return error;
  }
}

function tell(error) {
  const unreachable =
    error instanceof TypeError && /fetch|network|load failed/i.test(error.message);
  const text = unreachable ? "The scheduler does not answer." : String(error.message);
  // An alert is read out whenever its text is set, the same text as well.
  if (trouble.textContent !== text) trouble.textContent = text;
  trouble.hidden = false;
  if (!unreachable && error.status === undefined) console.error(error);
}

const isRefusal = (error) => error.status >= 400 && error.status < 500;

// Make the view; what it asks for tells its own troubles.
async function filled(view, show) {
  const waits = el("p", { class: "quiet", role: "status" });
  const timer = setTimeout(() => {
    view.root.setAttribute("aria-busy", "true");
    waits.textContent = "Loading…";
  }, LOADING);
  view.heading.after(waits);
  try {
    await show(view);
  } catch (error) {
    if (!view.signal.aborted) tell(error);
  }
  clearTimeout(timer);
  waits.remove();
  view.root.removeAttribute("aria-busy");
  delete view.root.dataset.loading;
}

function open() {
  const { segments, params } = parsed();
  if (segments.length === 0) {
    location.replace("#/map");
    return;
  }
  leaving.abort();
  leaving = new AbortController();
  trouble.hidden = true;
  const [name, show] = viewFor(segments);
  for (const anchor of document.querySelectorAll("nav a[data-view]")) {
    if (anchor.dataset.view === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  const view = new View(segments, params, leaving.signal);
  main.replaceChildren(view.heading, view.root);
  filled(view, show);
  if (!first) {
    scrollTo(0, 0);
    view.heading.focus({ preventScroll: true });
  }
  first = false;
}

function startFind() {
  const field = document.getElementById("find-text");
  document.getElementById("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return;
    location.hash = text.includes("/")
      ? route(["pods", ...text.split("/")])
      : route(["nodes", text]);
    field.value = "";
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address behind # is the view
  main.focus();
});
startTheme(document.getElementById("theme"));
startFind();
addEventListener("hashchange", open);
setInterval(() => tellAges(main), 1000);
open();
