// One node: what it has, who is on it, and which waiting pods it refuses.

import { get, podList } from "./api.js";
import { el, joined, link, meter, pager, podLink, refresh, section, table, tag } from "./dom.js";
import { count, listed, percent, plural, quantity } from "./format.js";
import { KnownObject } from "./known_object.js";

const PAGE = 50;

export async function nodeView(view) {
  const [, name] = view.segments;
  view.title(`Node ${name}`);
  const parts = Array.from({ length: 4 }, () => el("div"));
  const offsets = { pods: 0, refusals: 0 };
  const object = new KnownObject(view, ["nodes", name], "Node", name);
  object.box.hidden = true;
  view.root.append(...parts, object.box);
  let node = null;
  const draw = () => {
    refresh(parts[0], [node.unschedulable, node.taints, node.labels], () => overview(node));
    refresh(parts[1], [node.allocatable, node.requested], () => resources(node));
    refresh(parts[2], [node.refusals, node.accepts, node.waiting, offsets.refusals], () =>
      waiting(node, offsets, draw),
    );
    refresh(parts[3], [node.podList, offsets.pods], () => pods(node, offsets, draw));
  };
  await view.poll(3, async () => {
    try {
      node = await get(["nodes", name], {}, view.signal);
    } catch (error) {
      if (error.status === 404 && !node) await perhapsPod(parts[0], name, view.signal);
      throw error;
    }
    draw();
    object.box.hidden = false;
    await object.load();
  }).ready;
}

// Whoever looks for a pod may have left out its namespace.
async function perhapsPod(box, name, signal) {
  if (box.drawn) return;
  let all;
  try {
    all = await podList({ state: "all" }, Infinity, signal);
  } catch (error) {
    if (error.status === undefined) throw error;
    return; // why there is no answer is told for the node
  }
  const found = all.items.map(({ pod }) => pod).filter((pod) => pod.endsWith(`/${name}`));
  refresh(box, found, () =>
    found.length
      ? el("p", {}, "A pod has that name: ", joined(found, podLink), ".")
      : el("p", {}, "No pod has that name either; a pod is looked for as namespace/name."),
  );
}

function overview(node) {
  const shown = [el("p", {}, link(["map"], "Back to the map"))];
  if (node.unschedulable)
    shown.push(
      el(
        "p",
        { class: "warn" },
        "Unschedulable: new pods are kept away (kubectl uncordon admits them).",
      ),
    );
  const taints = node.taints ?? [];
  shown.push(
    section(
      "Taints",
      taints.length ? el("p", {}, taints.map(tag)) : el("p", { class: "quiet" }, "None."),
    ),
  );
  const labels = listed(node.labels);
  shown.push(
    section(
      "Labels",
      labels.length ? el("p", {}, labels.map(tag)) : el("p", { class: "quiet" }, "None."),
    ),
  );
  return shown;
}

function resources(node) {
  const names = Object.keys(node.allocatable ?? {});
  const share = (name) => {
    const whole = quantity(node.allocatable[name]);
    return whole ? quantity(node.requested?.[name]) / whole : null;
  };
  const bar = (name) => {
    const used = share(name);
    if (used === null || Number.isNaN(used)) return "";
    const told = percent(used);
    return [meter(used, `${name}: ${told} requested`), ` ${told}`];
  };
  const columns = [
    { title: "Resource", cell: (name) => name },
    { title: "Requested", number: true, cell: (name) => node.requested?.[name] ?? "0" },
    { title: "Allocatable", number: true, cell: (name) => node.allocatable[name] },
    { title: "Share", cell: bar },
  ];
  return section("Resources", table("What pods request of what there is", columns, names));
}

function waiting(node, offsets, draw) {
  const refusals = node.refusals ?? [];
  const accepts = node.accepts ?? [];
  const shown = [];
  const asked = refusals.length + accepts.length;
  if (asked && node.waiting > asked) {
    const text = `${plural(node.waiting, "pod waits", "pods wait")}; the most important ${count(asked)} were asked about.`;
    shown.push(el("p", {}, text));
  }
  if (accepts.length) shown.push(el("p", {}, "Would be accepted: ", joined(accepts, podLink)));
  if (refusals.length) {
    const reasons = (refusal) =>
      el(
        "ul",
        { class: "plain" },
        refusal.verdicts
          .filter((verdict) => verdict.reasons?.length || verdict.verdict === "rejected")
          .map((verdict) =>
            el(
              "li",
              {},
              `${verdict.plugin}: ${(verdict.reasons ?? []).join(", ") || verdict.verdict}`,
            ),
          ),
      );
    const columns = [
      { title: "Pod", kind: "name", cell: (refusal) => podLink(refusal.pod) },
      { title: "Why not here", cell: reasons },
    ];
    const page = refusals.slice(offsets.refusals, offsets.refusals + PAGE);
    const turn = (to) => {
      offsets.refusals = to;
      draw();
    };
    const caption =
      node.waiting > asked
        ? `${count(refusals.length)} of these ${count(asked)} are refused`
        : `${plural(refusals.length, "waiting pod is", "waiting pods are")} refused`;
    shown.push(
      table(caption, columns, page),
      pager(refusals.length, offsets.refusals, PAGE, turn, "waiting pods"),
    );
  }
  if (!shown.length) shown.push(el("p", { class: "quiet" }, "No pod waits."));
  return section("Waiting pods", ...shown);
}

function pods(node, offsets, draw) {
  const all = node.podList ?? [];
  const names = [...new Set(all.flatMap((pod) => Object.keys(pod.requests ?? {})))].sort();
  const columns = [
    { title: "Pod", kind: "name", cell: (pod) => podLink(pod.pod) },
    { title: "Priority", number: true, cell: (pod) => count(pod.priority) },
    ...names.map((name) => ({
      title: name,
      number: true,
      cell: (pod) => pod.requests?.[name] ?? "",
    })),
  ];
  const page = all.slice(offsets.pods, offsets.pods + PAGE);
  const turn = (to) => {
    offsets.pods = to;
    draw();
  };
  const content = all.length
    ? [
        table(`${plural(all.length, "pod")} and what they request`, columns, page),
        pager(all.length, offsets.pods, PAGE, turn, "pods"),
      ]
    : [el("p", { class: "quiet" }, "No pods.")];
  return section("Pods on it", ...content);
}
