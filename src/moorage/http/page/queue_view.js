// Pods that wait: how long, how often they were tried, and what for. Or all pods.

import { get, podList } from "./api.js";
import { el, nodeLink, podLink, refresh, since, table, tile, tiles } from "./dom.js";
import { count, plural } from "./format.js";
import { NamespaceFilter } from "./namespace_filter.js";

const PAGE = 100;

// When it was made; each attempt puts it into the queue anew.
const begun = (pod) => pod.created ?? pod.added;

const ORDERS = {
  name: () => 0,
  age: (a, b) => (begun(a) ?? Infinity) - (begun(b) ?? Infinity),
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
  const namespace = new NamespaceFilter(view, () => {
    shown = PAGE;
    anew();
  });
  const list = el("div");
  const more = el("button", { type: "button", hidden: true }, "Show more");
  view.root.append(
    tiles,
    el(
      "div",
      { class: "controls", role: "group", "aria-label": "What the list shows" },
      el("label", {}, "Show ", state),
      namespace.label,
      el("label", {}, "Order by ", order),
      el("label", {}, "Search pods ", search),
    ),
    list,
    more,
  );
  let shown = PAGE;
  let pods = { items: [], total: 0, wanted: 0 };
  // Lists come in the order of names: whoever searches or orders otherwise needs all of it.
  const wanted = () => (search.value.trim() || order.value !== "name" ? Infinity : shown);
  const load = async () => {
    const asked = wanted();
    const which = { state: state.value, namespace: namespace.value };
    return { ...(await podList(which, asked, view.signal)), wanted: asked };
  };
  const draw = () => {
    const sought = search.value.trim().toLowerCase();
    const matching = pods.items
      .filter(
        (pod) =>
          !sought ||
          `${pod.pod} ${pod.message ?? ""} ${(pod.plugins ?? []).join(" ")}`
            .toLowerCase()
            .includes(sought),
      )
      .sort(ORDERS[order.value]);
    const rows = matching.slice(0, shown);
    const before = list.querySelectorAll("tbody tr").length;
    const caption = sought
      ? `${count(rows.length)} of ${count(matching.length)} that match, of ${plural(pods.total, "pod")}`
      : `${count(rows.length)} of ${plural(pods.total, "pod")}`;
    const none = !pods.total
      ? `No pod ${state.value === "all" ? "is there" : "waits"}${namespace.value ? ` in ${namespace.value}` : ""}.`
      : pods.more && pods.wanted < wanted()
        ? "Looking through all pods."
        : "No pod of these matches.";
    refresh(list, [rows, caption, none], () =>
      rows.length ? listing(caption, rows) : el("p", { class: "quiet" }, none),
    );
    const focused = document.activeElement === more;
    more.hidden = !pods.more && matching.length <= shown;
    if (focused && more.hidden) {
      const first = list.querySelectorAll("tbody tr")[before] ?? list;
      first.querySelector("a")?.focus();
    }
  };
  const { anew, ready } = view.poll(2, async () => {
    const [stats, found] = await Promise.all([get(["stats"], {}, view.signal), load()]);
    pods = found;
    namespace.offer(pods.namespaces);
    refresh(tiles, { pending: stats.pending, leading: stats.leading }, counts);
    draw();
  });
  // Show at once what is there, and ask for what is not.
  const changed = () => {
    if (pods.wanted) draw();
    if (pods.wanted < wanted()) anew();
  };
  more.addEventListener("click", () => {
    shown += PAGE;
    changed();
  });
  state.addEventListener("change", () => {
    shown = PAGE;
    view.keep({ state: state.value === "all" ? "all" : "" });
    anew();
  });
  order.addEventListener("change", () => {
    view.keep({ order: order.value === "name" ? "" : order.value });
    changed();
  });
  search.addEventListener("input", () => {
    view.keep({ q: search.value });
    changed();
  });
  await ready;
}

// How many pods wait where; a standby has no queue of its own.
export function counts({ pending, leading }) {
  if (leading === false) {
    return el("p", { class: "warn" }, "Another instance leads; this one stands by.");
  }
  const places = ["active", "backoff", "unschedulable", "gated"];
  return tiles(
    "Waiting pods by queue",
    ...places.map((place) => tile(count(pending[place]), place)),
  );
}

function listing(caption, rows) {
  const columns = [
    { title: "Pod", kind: "name", cell: (pod) => podLink(pod.pod) },
    {
      title: "State",
      cell: (pod) => el("span", { title: STATES[pod.state] ?? null }, pod.state ?? ""),
    },
    { title: "Age", number: true, cell: (pod) => since(begun(pod)) },
    {
      title: "Attempts",
      number: true,
      cell: (pod) => (pod.state === "placed" ? "" : count(pod.attempts)),
    },
    { title: "Next retry", number: true, cell: (pod) => since(pod.nextRetry, "until") },
    { title: "Priority", number: true, cell: (pod) => count(pod.priority) },
    { title: "Node", cell: (pod) => nodeLink(pod.node) },
    { title: "Plugins", cell: (pod) => (pod.plugins ?? []).join(", ") },
    { title: "Message", kind: "message", cell: (pod) => pod.message ?? "" },
  ];
  return table(caption, columns, rows);
}
