// Pods of one namespace, or of all: a choice that is kept in the address.

import { el, refresh } from "./dom.js";

export class NamespaceFilter {
  // `changed` is told that another namespace was chosen.
  constructor(view, changed) {
    this.select = el("select", {
      onchange: () => {
        view.keep({ namespace: this.select.value });
        changed();
      },
    });
    this.label = el("label", {}, "Namespace ", this.select);
    this.known = new Set();
    const chosen = view.params.get("namespace") ?? "";
    this.offer(chosen ? [chosen] : []);
    this.select.value = chosen;
  }

  // Empty for all.
  get value() {
    return this.select.value;
  }

  // There are these namespaces as well.
  offer(namespaces) {
    for (const name of namespaces) this.known.add(name);
    const chosen = this.value;
    const made = refresh(this.select, [...this.known].sort(), (names) => [
      el("option", { value: "" }, "all"),
      ...names.map((name) => el("option", { value: name }, name)),
    ]);
    if (made) this.select.value = chosen;
  }

  allows(pod) {
    return !this.value || pod.startsWith(`${this.value}/`);
  }
}
