// What the scheduler knows of an object beside its explanation: events, and the object as YAML.

import { get } from "./api.js";
import { copyable, el, refresh, section, since, table } from "./dom.js";
import { commandToGet } from "./edits.js";
import { count } from "./format.js";

export class KnownObject {
  // `path` is the object's in the API, `name` what kubectl calls it.
  constructor(view, path, kind, name) {
    this.view = view;
    this.path = [...path, "object"];
    this.events = el("div");
    this.yaml = el("div");
    this.box = el("div", {}, [
      section("Events", this.events),
      section(
        "YAML",
        el("details", {}, el("summary", {}, "Show what the scheduler knows of it"), this.yaml),
        el(
          "p",
          { class: "quiet" },
          "Commands, environment, probes and annotations are not shown: a scheduler has no use for them. The whole object:",
        ),
        copyable(commandToGet(kind, name), "the command for the whole object"),
      ),
    ]);
  }

  async load() {
    const { yaml, events = [] } = await get(this.path, {}, this.view.signal);
    refresh(this.events, events, eventTable);
    refresh(this.yaml, yaml, (text) => copyable(text, "the YAML"));
  }
}

function eventTable(events) {
  if (!events.length)
    return el("p", { class: "quiet" }, "This scheduler wrote none about it of late.");
  const columns = [
    { title: "Reason", cell: (event) => event.reason },
    { title: "Type", cell: (event) => event.type },
    { title: "Age", number: true, cell: (event) => since(event.last) },
    { title: "Times", number: true, cell: (event) => count(event.count) },
    { title: "From", cell: (event) => event.controller },
    { title: "Message", kind: "message", cell: (event) => event.note },
  ];
  return table("What this scheduler wrote about it of late, the newest first", columns, events);
}
