// What pods' and decisions' explanations share: who rejects, who scores what, node by plugin.

import { chart, plain } from "./charts.js";
import { el, joined, nodeLink, pager, refresh, scrolled, section, table } from "./dom.js";
import { count, plural } from "./format.js";
import { series } from "./theme.js";

export const MATRIX_PAGE = 50;

export function rejections(found) {
  const columns = [
    { title: "Plugin", cell: (rejection) => rejection.plugin },
    { title: "Reason", cell: (rejection) => rejection.reason },
    { title: "Nodes", number: true, cell: (rejection) => count(rejection.nodes) },
    { title: "By it alone", number: true, cell: (rejection) => count(rejection.only) },
    { title: "Extension point", cell: (rejection) => rejection.point ?? "Filter" },
    { title: "Code", kind: "name", cell: (rejection) => rejection.code ?? "" },
    { title: "For example", cell: (rejection) => joined(rejection.examples ?? [], nodeLink) },
  ];
  if (!found?.length)
    return section(
      "Who rejects which nodes",
      el("p", { class: "quiet" }, "Nobody rejects a node."),
    );
  const caption =
    "Every plugin is asked about every node, so that a node may be counted in several lines";
  return section("Who rejects which nodes", table(caption, columns, found));
}

// The scores' part of a view: bars that show what each plugin adds, and the same as a table. What is
// equal for all nodes decides nothing and is told in a sentence.
export class Scores {
  constructor(signal) {
    this.box = el("div");
    this.chart = el("div");
    this.same = el("p", { class: "quiet" });
    this.list = el("div");
    this.scores = [];
    this.different = [];
    this.box.hidden = true;
    this.box.append(
      section(
        "Scores",
        el("p", { class: "quiet" }, "What each Score plugin adds to a node's total, weighted."),
        this.chart,
        this.same,
        el("details", {}, el("summary", {}, "Scores as a table"), this.list),
      ),
    );
    this.draw = chart(
      this.chart,
      "Scores of the best nodes, by plugin; the table below has the numbers",
      () => this.made(),
      signal,
    );
  }

  show(scores) {
    const key = JSON.stringify(scores ?? []);
    if (key === this.key) return;
    this.key = key;
    this.scores = scores ?? [];
    this.box.hidden = this.scores.length === 0;
    if (!this.scores.length) return;
    const { same, different } = folded(this.scores);
    this.different = different;
    const told = same.map((one) => `${one.plugin} ${one.weighted}`).join(", ");
    this.same.textContent = told && `The same for all: ${told}`;
    refresh(this.list, this.scores, () => scoreTable(this.scores, different));
    this.chart.hidden = !this.given().length;
    if (this.chart.hidden) return;
    this.chart.style.height = `${Math.max(240, this.scores.length * 34 + 130)}px`;
    this.draw();
  }

  // The plugins that have a bar: those that give somebody something.
  given() {
    const gives = (plugin) => this.scores.some((node) => part(node, plugin)?.weighted);
    return this.different.filter(gives);
  }

  made() {
    const names = this.scores.map((node) => plain(node.node) + (node.chosen ? " ✓" : ""));
    const traces = this.given().map((plugin, index) => ({
      type: "bar",
      orientation: "h",
      name: plain(plugin),
      y: names,
      x: this.scores.map((node) => part(node, plugin)?.weighted ?? 0),
      marker: { color: series(index), pattern: { shape: index >= 8 ? "/" : "" } },
      hovertemplate: `%{y}<br>${plain(plugin)}: %{x}<extra></extra>`,
    }));
    return {
      traces,
      layout: {
        barmode: "stack",
        showlegend: true,
        xaxis: { fixedrange: true },
        yaxis: { autorange: "reversed", type: "category", fixedrange: true },
      },
    };
  }
}

const part = (node, plugin) => node.parts?.find((one) => one.plugin === plugin);

function pluginsOf(scores) {
  return [...new Set(scores.flatMap((node) => (node.parts ?? []).map((one) => one.plugin)))];
}

// The parts that are equal for all nodes, and the names of the other plugins.
function folded(scores) {
  const plugins = pluginsOf(scores);
  const differs = (plugin) =>
    scores.length < 2 ||
    scores.some((node) => part(node, plugin)?.weighted !== part(scores[0], plugin)?.weighted);
  const different = plugins.filter(differs);
  const same = (scores[0].parts ?? []).filter((one) => !different.includes(one.plugin));
  return { same, different };
}

function scoreTable(scores, plugins) {
  const cell = (node, plugin) => {
    const found = part(node, plugin);
    return found
      ? `${found.weighted} (${found.normalized} × ${found.weight}, raw ${found.raw})`
      : "";
  };
  const columns = [
    {
      title: "Node",
      kind: "name",
      cell: (node) => [nodeLink(node.node), node.chosen ? " (chosen)" : ""],
    },
    { title: "Total", number: true, cell: (node) => count(node.total) },
    ...plugins.map((plugin) => ({
      title: plugin,
      number: true,
      cell: (node) => cell(node, plugin),
    })),
  ];
  return table("Weighted score (normalised × weight, raw)", columns, scores);
}

// The matrix' part of a view: asked for when it is opened, a page at a time.
export class MatrixPages {
  // `load` gets offset and limit and returns an object with a matrix.
  constructor(view, load) {
    this.view = view;
    this.load = load;
    this.body = el("div", { "aria-live": "off" });
    this.details = el(
      "details",
      { ontoggle: () => this.toggled() },
      el("summary", {}, "Show every plugin's verdict on every node"),
      this.body,
    );
    this.box = section("Node × plugin", this.details);
    this.offset = Number(view.params.get("matrix") ?? 0) || 0;
    if (view.params.has("matrix")) this.details.open = true;
  }

  toggled() {
    if (this.details.open) this.turn(this.offset);
    else this.view.keep({ matrix: "" });
  }

  turn(offset) {
    this.offset = offset;
    this.view.keep({ matrix: String(offset) });
    return this.view.guarded(async () => {
      const { matrix = null } = await this.load(offset, MATRIX_PAGE);
      refresh(this.body, matrix, () => this.page(matrix));
    });
  }

  page(matrix) {
    if (!matrix) return el("p", { class: "quiet" }, "No verdicts are known.");
    const turn = (to) => this.turn(to);
    const pages = pager(matrix.total, matrix.offset ?? 0, MATRIX_PAGE, turn, "nodes");
    return [matrixTable(matrix), pages];
  }
}

const SIGNS = {
  ok: ["✓", "ok"],
  rejected: ["✗", "rejected"],
  skipped: ["–", "other"],
  "not considered": ["·", "other"],
};

function matrixTable(matrix) {
  const verdict = (row, plugin) => row.verdicts?.find((one) => one.plugin === plugin);
  const head = el(
    "tr",
    {},
    el("th", { scope: "col" }, "Node"),
    matrix.plugins.map((plugin) =>
      el("th", { scope: "col", class: "turned" }, el("span", {}, plugin)),
    ),
    el("th", { scope: "col", class: "number" }, "Total"),
    el("th", { scope: "col" }, "Why not"),
  );
  const cell = (row, plugin) => {
    const found = verdict(row, plugin);
    const [sign, kind] = SIGNS[found?.verdict] ?? ["·", "other"];
    const reasons = (found?.reasons ?? []).join(", ");
    return el(
      "td",
      { class: kind, title: reasons || null },
      el("span", { "aria-hidden": "true" }, sign),
      el("span", { class: "unseen" }, found?.verdict ?? "not considered"),
    );
  };
  const why = (row) =>
    (row.verdicts ?? [])
      .filter((one) => one.verdict === "rejected")
      .map((one) => `${one.plugin}: ${(one.reasons ?? []).join(", ")}`)
      .join("; ");
  const line = (row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "name" }, nodeLink(row.node)),
      matrix.plugins.map((plugin) => cell(row, plugin)),
      el("td", { class: "number" }, row.total ?? ""),
      el(
        "td",
        { class: "why" },
        row.feasible ? el("span", { class: "good" }, "feasible") : why(row),
      ),
    );
  const caption = `${plural(matrix.total, "node")}: ✓ accepts, ✗ rejects, – has nothing to say about this pod, · was not asked`;
  return scrolled(
    "Every plugin's verdict on every node",
    el(
      "table",
      { class: "matrix" },
      el("caption", {}, caption),
      el("thead", {}, head),
      el("tbody", {}, matrix.rows.map(line)),
    ),
  );
}
