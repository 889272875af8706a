// What the landing view tells in numbers and names: the cluster's totals, and pods that wait.

import { el, link, meter, podLink, refresh, section, since, tile, tiles } from "./dom.js";
import { amount, count, percent, quantity } from "./format.js";

export const MOST_WAITING = 8;
const ALWAYS_SHOWN = ["cpu", "memory"];

export class ClusterSummary {
  constructor() {
    this.totals = el("div");
    this.waiting = el("aside", { "aria-label": "Pods that wait", hidden: true });
  }

  show(nodes, stats, pods) {
    const off = nodes.items.filter((node) => node.unschedulable).length;
    refresh(this.totals, [nodes.total, off, stats.pods, waitingIn(stats), nodes.totals], () =>
      tiles(
        "The cluster",
        tile(count(nodes.total), nodes.total === 1 ? "node" : "nodes", cordoned(off)),
        tile(count(stats.pods), stats.pods === 1 ? "pod on nodes" : "pods on nodes"),
        waitingTile(stats),
        ...resourceTiles(nodes),
      ),
    );
    this.waiting.hidden = !pods.items.length;
    refresh(this.waiting, [pods.items, pods.total], () => waitingList(pods));
  }
}

const cordoned = (off) =>
  off ? el("span", { class: "quiet" }, `, ${count(off)} unschedulable`) : null;

const waitingIn = ({ pending, leading }) =>
  leading === false ? null : Object.values(pending).reduce((sum, some) => sum + some, 0);

function waitingTile(stats) {
  const waiting = waitingIn(stats);
  if (waiting === null) return tile("–", "stands by: another instance leads");
  return tile(count(waiting), link(["queue"], waiting === 1 ? "pod waits" : "pods wait"));
}

// CPU, memory, and what else somebody asks for.
function resourceTiles({ resources, totals }) {
  return resources.flatMap((name) => {
    const [used, whole] = [quantity(totals[name].requested), quantity(totals[name].allocatable)];
    if (!used && !ALWAYS_SHOWN.includes(name)) return [];
    const share = used / whole;
    const bar = meter(share, `${name}: ${percent(share)} requested`);
    return tile(
      `${amount(name, used)} of ${amount(name, whole)}`,
      `${name} requested`,
      el("div", { class: "share" }, bar, ` ${percent(share)}`),
    );
  });
}

function waitingList({ items, total }) {
  const entry = (pod) =>
    el(
      "li",
      {},
      podLink(pod.pod),
      el(
        "div",
        { class: "quiet" },
        pod.state ?? "",
        " for ",
        since(pod.created ?? pod.added),
        pod.plugins?.length ? `: ${pod.plugins.join(", ")}` : "",
      ),
    );
  const others = total - items.length;
  return section(
    "Waiting pods",
    el("ul", { class: "plain waiting" }, items.map(entry)),
    others > 0 ? el("p", {}, link(["queue"], `and ${count(others)} more`)) : null,
  );
}
