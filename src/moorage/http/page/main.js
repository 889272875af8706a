// Which view the address asks for, and what all views share: title, focus, troubles, polling.

import { configurationView } from "./configuration_view.js";
import { decisionView } from "./decision_view.js";
import { decisionsView } from "./decisions_view.js";
import { el, route } from "./dom.js";
import { mapView } from "./map_view.js";
import { nodeView } from "./node_view.js";
import { podView } from "./pod_view.js";
import { queueView } from "./queue_view.js";
import { startTheme } from "./theme.js";
import { throughputView } from "./throughput_view.js";

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
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
  // Returns a function that does it at once.
  poll(seconds, work) {
    let timer = 0;
    let running = null;
    const once = async () => {
      clearTimeout(timer);
      const begun = performance.now();
      await guarded(work, this.signal);
      const took = (performance.now() - begun) / 1000;
      if (!this.signal.aborted) timer = setTimeout(tick, Math.max(seconds, took * 20) * 1000);
    };
    const now = () => {
      running ??= once().finally(() => {
        running = null;
      });
      return running;
    };
    const tick = () => {
      if (document.hidden) timer = setTimeout(tick, seconds * 1000);
      else now();
    };
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    return { now, ready: now() };
  }

  async guarded(work) {
    await guarded(work, this.signal);
  }
}

async function guarded(work, signal) {
  try {
    await work();
    if (!signal.aborted) trouble.hidden = true;
  } catch (error) {
    if (signal.aborted) return;
    const unreachable = error instanceof TypeError && /fetch/i.test(error.message);
    trouble.textContent = unreachable ? "The scheduler does not answer." : String(error.message);
    trouble.hidden = false;
    if (!unreachable && error.status === undefined) console.error(error);
  }
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
  guarded(async () => {
    await show(view);
    delete view.root.dataset.loading;
  }, leaving.signal);
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
open();
