// Pods that wait: how long, how often they were tried, and what for. Or all pods.

import { get } from "./api.js";
import { el, nodeLink, podLink, refresh, table } from "./dom.js";
import { age, count, plural } from "./format.js";

const PAGE = 100;

const ORDERS = {
  name: () => 0,
  age: (a, b) => (a.added ?? Infinity) - (b.added ?? Infinity),
  attempts: (a, b) => (b.attempts ?? 0) - (a.attempts ?? 0),
  priority: (a, b) => (b.priority ?? 0) - (a.priority ?? 0),
};

const STATES = {
  active: "will be tried next",
  backoff: "waits out its back-off",
  unschedulable: "waits for the cluster to change",
  gated: "is held back by a PreEnqueue plugin",
  inFlight: "is being tried",
  waitingOnPermit: "waits for a Permit plugin",
  binding: "is being bound",
};

export async function queueView(view) {
  view.title("Queue");
  const tiles = el("div");
  const state = el(
    "select",
    { id: "queue-state" },
    el("option", { value: "pending" }, "waiting pods"),
    el("option", { value: "all" }, "all pods"),
  );
  if (view.params.get("state") === "all") state.value = "all";
  const search = el("input", {
    id: "queue-search",
    type: "search",
    value: view.params.get("q") ?? "",
    autocomplete: "off",
    spellcheck: "false",
  });
  const order = el(
    "select",
    { id: "queue-order" },
    Object.keys(ORDERS).map((name) => el("option", { value: name }, name)),
  );
  if (view.params.get("order") in ORDERS) order.value = view.params.get("order");
  const list = el("div");
  const more = el("button", { type: "button", hidden: true }, "Show more");
  view.root.append(
    tiles,
    el(
      "div",
      { class: "controls", role: "group", "aria-label": "What the list shows" },
      el("label", {}, "Show ", state),
      el("label", {}, "Order by ", order),
      el("label", {}, "Search pods ", search),
    ),
    list,
    more,
  );
  let limit = PAGE;
  let pods = { items: [], total: 0 };
  const draw = () => {
    const sought = search.value.trim().toLowerCase();
    const rows = pods.items
      .filter(
        (pod) =>
          !sought ||
          `${pod.pod} ${pod.message ?? ""} ${(pod.plugins ?? []).join(" ")}`
            .toLowerCase()
            .includes(sought),
      )
      .sort(ORDERS[order.value]);
    refresh(list, [rows, pods.total], () => listing(rows, pods.total ?? rows.length));
    more.hidden = !pods.continue;
    tellAges(list);
  };
  const { now, ready } = view.poll(2, async () => {
    const [stats, found] = await Promise.all([
      get(["stats"], {}, view.signal),
      get(["pods"], { state: state.value, limit }, view.signal),
    ]);
    pods = found;
    refresh(tiles, { pending: stats.pending, leading: stats.leading }, counts);
    draw();
  });
  more.addEventListener("click", () => {
    limit += PAGE;
    now();
  });
  state.addEventListener("change", () => {
    limit = PAGE;
    view.keep({ state: state.value === "all" ? "all" : "" });
    now();
  });
  order.addEventListener("change", () => {
    view.keep({ order: order.value === "name" ? "" : order.value });
    draw();
  });
  search.addEventListener("input", () => {
    view.keep({ q: search.value });
    draw();
  });
  const ticking = setInterval(() => tellAges(list), 1000);
  view.signal.addEventListener("abort", () => clearInterval(ticking));
  await ready;
}

// How many pods wait where; a standby has no queue of its own.
export function counts({ pending, leading }) {
  if (leading === false) {
    return el("p", { class: "warn" }, "Another instance leads; this one stands by.");
  }
  const entry = (name) => el("li", {}, el("span", { class: "figure" }, count(pending[name])), name);
  return el(
    "ul",
    { class: "tiles", "aria-label": "Waiting pods by queue" },
    ["active", "backoff", "unschedulable", "gated"].map(entry),
  );
}

function listing(rows, total) {
  if (!rows.length)
    return el("p", { class: "quiet" }, total ? "No pod of these matches." : "No pod waits.");
  const since = (seconds, kind) =>
    seconds
      ? el("time", {
          "data-since": seconds,
          "data-kind": kind,
          datetime: new Date(seconds * 1000).toISOString(),
        })
      : "";
  const columns = [
    { title: "Pod", kind: "name", cell: (pod) => podLink(pod.pod) },
    {
      title: "State",
      cell: (pod) => el("span", { title: STATES[pod.state] ?? null }, pod.state ?? ""),
    },
    { title: "Age", number: true, cell: (pod) => since(pod.added, "age") },
    { title: "Attempts", number: true, cell: (pod) => count(pod.attempts) },
    { title: "Next retry", number: true, cell: (pod) => since(pod.nextRetry, "until") },
    { title: "Priority", number: true, cell: (pod) => count(pod.priority) },
    { title: "Node", cell: (pod) => nodeLink(pod.node) },
    { title: "Plugins", cell: (pod) => (pod.plugins ?? []).join(", ") },
    { title: "Message", cell: (pod) => pod.message ?? "" },
  ];
  return table(`${count(rows.length)} of ${plural(total, "pod")}`, columns, rows);
}

function tellAges(list) {
  const now = Date.now() / 1000;
  for (const shown of list.querySelectorAll("time[data-since]")) {
    const at = Number(shown.dataset.since);
    if (shown.dataset.kind === "age") shown.textContent = age(now - at);
    else shown.textContent = at > now ? `in ${age(at - now)}` : "due";
  }
}
