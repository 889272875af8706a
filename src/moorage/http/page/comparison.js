// "Why this node and not that one": the other node is named in the address.

import { el, nodeLink, refresh, route, section, table } from "./dom.js";
import { count } from "./format.js";

export class Comparison {
  constructor(view) {
    this.node = view.params.get("node") ?? "";
    this.answer = el("div");
    const field = el("input", {
      id: "compare-node",
      type: "search",
      value: this.node,
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "node name",
    });
    const form = el(
      "form",
      {
        class: "controls",
        onsubmit: (event) => {
          event.preventDefault();
          location.hash = route(view.segments, {
            ...Object.fromEntries(view.params),
            node: field.value.trim(),
          });
        },
      },
      el("label", {}, "Why not node ", field),
      el("button", { type: "submit" }, "Compare"),
    );
    this.box = section("Compare with another node", form, this.answer);
  }

  show(pod) {
    const asked = pod.asked?.find((row) => row.node === this.node);
    const chosen = pod.scores?.find((node) => node.chosen);
    refresh(this.answer, [asked ?? null, chosen ?? null], () =>
      asked ? compared(asked, chosen) : null,
    );
  }
}

function compared(asked, chosen) {
  const refused = (asked.verdicts ?? []).filter((one) => one.verdict === "rejected");
  if (!asked.feasible) {
    const reasons = refused.map((one) =>
      el("li", {}, `${one.plugin}: ${(one.reasons ?? []).join(", ")}`),
    );
    return [el("p", {}, nodeLink(asked.node), " does not take the pod:"), el("ul", {}, reasons)];
  }
  if (!chosen || asked.total === undefined)
    return el("p", {}, nodeLink(asked.node), " takes the pod.");
  if (chosen.node === asked.node)
    return el("p", {}, nodeLink(asked.node), " is the node that was chosen.");
  const less = chosen.total - asked.total;
  const verdict =
    less > 0
      ? ` takes the pod, but scores ${count(less)} less than `
      : " takes the pod and scores as much; the first in the order of search is chosen, here ";
  return [
    el("p", {}, nodeLink(asked.node), verdict, nodeLink(chosen.node), "."),
    differences(asked, chosen),
  ];
}

function differences(asked, chosen) {
  const weighted = (node, plugin) =>
    node.parts?.find((one) => one.plugin === plugin)?.weighted ?? 0;
  const plugins = [
    ...new Set([...(chosen.parts ?? []), ...(asked.parts ?? [])].map((one) => one.plugin)),
  ];
  const signed = (number) => (number > 0 ? `+${number}` : String(number));
  const columns = [
    { title: "Plugin", cell: (plugin) => plugin },
    { title: chosen.node, number: true, cell: (plugin) => weighted(chosen, plugin) },
    { title: asked.node, number: true, cell: (plugin) => weighted(asked, plugin) },
    {
      title: "Difference",
      number: true,
      cell: (plugin) => signed(weighted(asked, plugin) - weighted(chosen, plugin)),
    },
  ];
  return table("Weighted scores", columns, plugins);
}
