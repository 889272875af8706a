// The cluster as a map (or a table) of its nodes, to be coloured, ordered, searched and entered.

import { get, podList } from "./api.js";
import { ClusterSummary, MOST_WAITING } from "./cluster_summary.js";
import { categories, measures, painter, scale, told } from "./colouring.js";
import { el, nodeLink, pager, refresh, route, say, table } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { HeatMap } from "./heat_map.js";
import { onTheme, series } from "./theme.js";

const PAGE = 100;
const MANY = 10000;

const ORDERS = [
  ["name", "name"],
  ["value", "value"],
  ["zone", "zone"],
];
const byName = (a, b) => a.node.localeCompare(b.node, "en", { numeric: true });

export async function mapView(view) {
  view.title("Cluster map");
  const map = new NodesShown(view);
  await view.poll(5, () => map.load()).ready;
}

class NodesShown {
  constructor(view) {
    this.view = view;
    this.nodes = [];
    this.resources = [];
    this.offset = 0;
    this.map = new HeatMap({
      opened: (node) => {
        location.hash = route(["nodes", node.node]);
      },
      moved: (node) => this.announce(node),
      describe: (node) => this.describe(node),
      short: (node) => told(this.measure, node),
      signal: view.signal,
    });
    onTheme(() => this.drawLegend(), view.signal);
    this.makeControls();
    this.summary = new ClusterSummary();
    this.none = el("p", { class: "quiet", hidden: true }, "There are no nodes yet.");
    this.legend = el("div", { class: "legend" });
    this.cursorTold = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
    this.list = el("div");
    const nodes = el("div", {}, [
      this.controls,
      this.legend,
      this.none,
      this.map.element,
      this.list,
      this.cursorTold,
    ]);
    view.root.append(
      this.summary.totals,
      el("div", { class: "beside" }, nodes, this.summary.waiting),
    );
  }

  makeControls() {
    const { params } = this.view;
    const changed = () => {
      this.offset = 0;
      this.keep();
      this.draw();
    };
    this.by = el("select", { id: "map-by", onchange: changed });
    this.order = el(
      "select",
      { id: "map-order", onchange: changed },
      ORDERS.map(([value, text]) => el("option", { value }, text)),
    );
    this.order.value = ORDERS.some(([value]) => value === params.get("order"))
      ? params.get("order")
      : "name";
    this.search = el("input", {
      id: "map-search",
      type: "search",
      value: params.get("q") ?? "",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => {
        changed();
        this.announceMatches();
      },
      onkeydown: (event) => {
        if (event.key === "Enter") this.toFirstMatch();
      },
    });
    this.asTable = el("input", {
      id: "map-table",
      type: "checkbox",
      checked: params.get("table") === "true",
      onchange: changed,
    });
    const labelled = (text, field) => el("label", {}, `${text} `, field);
    this.controls = el(
      "div",
      { class: "controls", role: "group", "aria-label": "What the map shows" },
      labelled("Colour by", this.by),
      labelled("Order by", this.order),
      labelled("Search nodes", this.search),
      labelled("Show as table", this.asTable),
    );
  }

  async load() {
    const { signal } = this.view;
    const [nodes, stats, pods] = await Promise.all([
      this.loadNodes(),
      get(["stats"], {}, signal),
      podList({ state: "pending" }, MOST_WAITING, signal),
    ]);
    this.nodes = nodes.items.sort(byName);
    this.setMeasures(nodes.resources ?? []);
    this.summary.show(nodes, stats, pods);
    this.draw();
  }

  async loadNodes() {
    const items = [];
    let answer;
    let more = "";
    do {
      answer = await get(["nodes"], { limit: MANY, continue: more }, this.view.signal);
      items.push(...answer.items);
      more = answer.continue;
    } while (more);
    return { ...answer, items };
  }

  setMeasures(resources) {
    if (this.by.options.length && JSON.stringify(resources) === JSON.stringify(this.resources))
      return;
    this.resources = resources;
    this.measures = measures(resources);
    const chosen = this.by.value || this.view.params.get("by");
    this.by.replaceChildren(
      ...this.measures.map(({ id, title }) => el("option", { value: id }, title)),
    );
    if (this.measures.some(({ id }) => id === chosen)) this.by.value = chosen;
  }

  get measure() {
    return this.measures.find(({ id }) => id === this.by.value);
  }

  keep() {
    this.view.keep({
      by: this.by.value,
      order: this.order.value === "name" ? "" : this.order.value,
      q: this.search.value,
      table: this.asTable.checked ? "true" : "",
    });
  }

  matches(node) {
    const sought = this.search.value.trim().toLowerCase();
    if (!sought) return true;
    return [node.node, node.zone ?? "", ...(node.taints ?? [])].some((text) =>
      text.toLowerCase().includes(sought),
    );
  }

  ordered() {
    const { measure } = this;
    const value = (node) => (measure.share ? -(measure.share(node) ?? -1) : measure.name(node));
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : byName(a, b));
    return this.order.value === "value" ? [...this.nodes].sort(compare) : this.nodes;
  }

  groups() {
    if (this.order.value !== "zone") return [{ title: "", nodes: this.ordered() }];
    const zones = new Map();
    for (const node of this.nodes) {
      const zone = node.zone || "no zone";
      if (!zones.has(zone)) zones.set(zone, []);
      zones.get(zone).push(node);
    }
    return [...zones]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([zone, nodes]) => ({
        title: `${zone} (${count(nodes.length)})`,
        nodes,
      }));
  }

  draw() {
    if (!this.measures) return;
    this.none.hidden = this.nodes.length > 0;
    this.map.element.hidden = this.legend.hidden = this.asTable.checked || !this.nodes.length;
    this.list.hidden = !this.asTable.checked || !this.nodes.length;
    if (this.asTable.checked) this.drawTable();
    else {
      const { measure } = this;
      this.map.show(
        this.groups(),
        () => painter(measure, this.nodes),
        (node) => !this.matches(node),
      );
    }
    this.drawLegend();
  }

  drawLegend() {
    if (!this.measures || this.asTable.checked) return;
    const { measure } = this;
    if (measure.share) {
      const bar = el("canvas", { width: 100, height: 1, "aria-hidden": "true" });
      const [pen, paint] = [bar.getContext("2d"), scale()];
      for (let x = 0; x < 100; x += 1) {
        pen.fillStyle = paint(x / 99);
        pen.fillRect(x, 0, 1, 1);
      }
      const shares = el("span", { class: "shares" }, "0 %", bar, "100 %");
      this.legend.replaceChildren(el("span", {}, `${measure.title}:`), shares, ...this.struck());
      return;
    }
    const entry = (name, nodes, index) => {
      const swatch = el("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = series(index);
      return el("span", {}, swatch, `${name} (${count(nodes)})`);
    };
    const { listed, others } = categories(measure, this.nodes);
    const entries = listed.map(({ name, nodes, index }) => entry(name, nodes, index));
    if (others) entries.push(entry("others", others, listed.length));
    this.legend.replaceChildren(...entries, ...this.struck());
  }

  // What the stroke through a cell means, where there is one.
  struck() {
    const off = this.nodes.filter((node) => node.unschedulable).length;
    if (!off) return [];
    const swatch = el("span", { class: "swatch struck", "aria-hidden": "true" });
    return [el("span", {}, swatch, `unschedulable (${count(off)})`)];
  }

  drawTable() {
    const found = this.ordered().filter((node) => this.matches(node));
    if (this.order.value === "zone")
      found.sort((a, b) =>
        (a.zone ?? "") < (b.zone ?? "") ? -1 : (a.zone ?? "") > (b.zone ?? "") ? 1 : byName(a, b),
      );
    if (this.offset >= found.length) this.offset = 0;
    const rows = found.slice(this.offset, this.offset + PAGE);
    const columns = [
      { title: "Node", kind: "name", cell: (node) => nodeLink(node.node) },
      { title: "Zone", cell: (node) => node.zone ?? "" },
      {
        title: "Pods",
        number: true,
        cell: (node) => `${count(node.pods)} of ${count(node.maxPods)}`,
      },
      ...this.resources.map((name) => ({
        title: name,
        number: true,
        cell: (node) => percent(node.utilisation?.[name]),
      })),
      { title: "Taints", cell: (node) => (node.taints ?? []).join(", ") },
      { title: "Schedulable", cell: (node) => (node.unschedulable ? "no" : "yes") },
    ];
    const caption = `${plural(found.length, "node")}; a resource's column is the share that is requested`;
    const turn = (to) => {
      this.offset = to;
      this.drawTable();
    };
    refresh(this.list, [rows, found.length, this.offset], () => [
      table(caption, columns, rows),
      pager(found.length, this.offset, PAGE, turn, "nodes"),
    ]);
  }

  describe(node) {
    const { measure } = this;
    const lines = [
      node.node,
      `${measure.title}: ${told(measure, node)}`,
      `${count(node.pods)} of ${count(node.maxPods)} pods${node.zone ? `, ${node.zone}` : ""}`,
    ];
    if (node.taints?.length) lines.push(`taints: ${node.taints.join(", ")}`);
    if (node.unschedulable) lines.push("unschedulable");
    return lines;
  }

  announce(node) {
    clearTimeout(this.waiting);
    // Whoever holds an arrow key down wants to hear where they end, not every node on the way.
    this.waiting = setTimeout(() => {
      this.cursorTold.textContent = this.describe(node).join(". ");
    }, 150);
  }

  announceMatches() {
    clearTimeout(this.waiting);
    const found = this.nodes.filter((node) => this.matches(node)).length;
    this.waiting = setTimeout(
      () => say(`${count(found)} of ${plural(this.nodes.length, "node")} match`),
      400,
    );
  }

  toFirstMatch() {
    const first = this.map.cells.find((cell) => this.matches(cell.node));
    if (first && !this.asTable.checked) this.map.moveTo(first.node.node);
  }
}
