// "Why this node and not that one": the other node is named in the address.

import { el, nodeLink, refresh, say, section, table } from "./dom.js";
import { count } from "./format.js";

export class Comparison {
  // `changed` is told that another node is to be compared.
  constructor(view, changed) {
    this.node = view.params.get("node") ?? "";
    this.refusal = ""; // why there is no such node
    this.awaited = false;
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
          this.node = field.value.trim();
          this.refusal = "";
          this.awaited = true;
          view.keep({ node: this.node });
          changed();
        },
      },
      el("label", {}, "Why not node ", field),
      el("button", { type: "submit" }, "Compare"),
    );
    this.box = section("Compare with another node", form, this.answer);
  }

  // What to ask for; a node that is not there is asked for once.
  get wanted() {
    return this.refusal ? "" : this.node;
  }

  refuse(message) {
    this.refusal = message;
  }

  show(pod) {
    const asked = pod.asked?.find((row) => row.node === this.node);
    const chosen = pod.scores?.find((node) => node.chosen);
    refresh(this.answer, [asked ?? null, chosen ?? null, this.refusal], () =>
      asked
        ? compared(asked, chosen)
        : this.refusal
          ? el("p", { class: "bad" }, this.refusal)
          : null,
    );
    const told = this.answer.querySelector("p");
    if (!this.awaited || !told) return;
    this.awaited = false;
    say(told.textContent);
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
      : less < 0
        ? ` takes the pod and scores ${count(-less)} more than `
        : " takes the pod and scores as much as ";
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
