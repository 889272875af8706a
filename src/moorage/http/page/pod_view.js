// One pod, explained: where it is or why it is nowhere, and the smallest changes that would help.

import { get } from "./api.js";
import { Comparison } from "./comparison.js";
import { follow } from "./decision_stream.js";
import {
  copyable,
  el,
  facts,
  joined,
  link,
  nodeLink,
  podLink,
  refresh,
  say,
  section,
  since,
  table,
} from "./dom.js";
import { commandFor } from "./edits.js";
import { MatrixPages, rejections, Scores } from "./evidence.js";
import { count, plural, timeOfDay } from "./format.js";
import { KnownObject } from "./known_object.js";

const TOP = 10;

export async function podView(view) {
  const [, namespace, name] = view.segments;
  view.title(`Pod ${namespace}/${name}`);
  const parts = Object.fromEntries(
    ["state", "fixes", "rejections", "queue", "preemption"].map((part) => [part, el("div")]),
  );
  const comparison = new Comparison(view, () => anew());
  const path = ["pods", namespace, name];
  const scores = new Scores(view.signal);
  const matrix = new MatrixPages(view, (offset, limit) =>
    get(path, { matrix: true, offset, limit, fixes: false, top: 1 }, view.signal),
  );
  const object = new KnownObject(view, path, "Pod", `${namespace}/${name}`);
  const explained = el("div", { hidden: true }, [
    parts.state,
    parts.fixes,
    parts.rejections,
    parts.queue,
    parts.preemption,
    scores.box,
    comparison.box,
    matrix.box,
    object.box,
  ]);
  const missing = el("div", { hidden: true }, nothingKnown(`${namespace}/${name}`));
  view.root.append(explained, missing);
  let before = null;
  const ask = async (more) => {
    const node = comparison.wanted;
    try {
      return await get(path, { top: TOP, node, ...more }, view.signal);
    } catch (error) {
      if (!node || error.status !== 404) throw error;
      const pod = await get(path, { top: TOP, ...more }, view.signal);
      if (node === comparison.node) comparison.refuse(error.message);
      return pod;
    }
  };
  let helped = { key: "", fixes: [] };
  const show = (pod) => {
    [explained.hidden, missing.hidden] = [false, true];
    refresh(
      parts.state,
      [pod.placed, pod.node, pod.message, pod.feasible, pod.nodes, pod.decision, pod.source],
      () => state(pod),
    );
    refresh(parts.fixes, [pod.placed, pod.schedulable, pod.fixes ?? null], () => fixes(pod));
    refresh(parts.rejections, pod.rejections, rejections);
    refresh(parts.queue, pod.queue ?? null, queue);
    refresh(parts.preemption, pod.preemption ?? null, preemption);
    scores.show(pod.scores);
    comparison.show(pod);
    if (before !== null && before !== pod.placed)
      say(pod.placed ? `${pod.pod} is on ${pod.node} now` : `${pod.pod} waits again`);
    before = pod.placed;
  };
  const { now, anew, ready } = view.poll(5, async () => {
    // Looking for fixes takes the scheduler a while, so that it is asked to only where anything changed.
    let pod = await ask({ fixes: false }).catch((error) => {
      if (error.status === 404) [explained.hidden, missing.hidden] = [true, false];
      throw error;
    });
    const key = JSON.stringify([pod.message, pod.rejections, pod.placed]);
    if (!pod.placed && !pod.schedulable && key !== helped.key) {
      show({ ...pod, fixes: helped.key ? helped.fixes : null });
      pod = await ask({ fixes: true });
      helped = { key, fixes: pod.fixes ?? [] };
    }
    show({ ...pod, fixes: helped.fixes });
    await object.load();
  });
  await ready;
  if (view.signal.aborted) return;
  let known = false;
  const stop = follow(
    (decision) => {
      if (decision.pod === `${namespace}/${name}`) now();
    },
    (live) => {
      if (live && known) now(); // the stream was away, and so may be the decision
      known ||= live;
    },
  );
  view.signal.addEventListener("abort", stop);
}

function nothingKnown(pod) {
  return el(
    "p",
    {},
    "There is nothing to explain; ",
    link(["decisions"], "the ledger", { pod }),
    " may know of it, and there are ",
    link(["queue"], "other pods", { state: "all" }),
    ".",
  );
}

function state(pod) {
  const status = pod.placed
    ? el("p", {}, el("span", { class: "good" }, "On a node: "), nodeLink(pod.node))
    : pod.schedulable
      ? el(
          "p",
          {},
          el("span", { class: "good" }, "Schedulable"),
          pod.node ? [": would go to ", nodeLink(pod.node)] : "",
        )
      : el("p", {}, el("span", { class: "warn" }, "Waiting: no node takes it."));
  return [
    status,
    el("p", { class: "sentence" }, pod.message),
    facts([
      ["Feasible nodes", `${count(pod.feasible)} of ${count(pod.nodes)}`],
      ["Scheduler", pod.schedulerName],
      [
        "Latest decision",
        pod.decision === undefined || pod.decision === null
          ? null
          : link(["decisions", String(pod.decision)], `number ${pod.decision}`),
      ],
      ["All decisions", link(["decisions"], "in the ledger", { pod: pod.pod })],
      ["Known from", pod.source],
    ]),
  ];
}

function fixes(pod) {
  if (pod.placed || (pod.schedulable && !pod.fixes?.length)) return null;
  if (!pod.fixes)
    return section("Smallest fixes", el("p", { class: "quiet" }, "Looking for them."));
  const found = pod.fixes;
  if (!found.length)
    return section(
      "Smallest fixes",
      el("p", { class: "quiet" }, "No single change was found that would help."),
    );
  return section("Smallest fixes", ...found.map(fix));
}

function fix(found) {
  const checked = found.verified
    ? el("span", { class: "good" }, `Verified: ${plural(found.nodesGained, "node")} would take it`)
    : el("span", { class: "warn" }, "Not verified");
  const anew = (found.edits ?? []).some((edit) => edit.recreate);
  return el(
    "article",
    { class: found.verified ? "fix" : "fix unverified", "data-kind": found.kind },
    el("h3", {}, found.change),
    el("p", {}, checked, found.plugins?.length ? ` · lifts ${found.plugins.join(", ")}` : ""),
    found.examples?.length
      ? el(
          "p",
          {},
          "Nodes gained: ",
          joined(found.examples, nodeLink),
          found.nodesGained > found.examples.length ? ", …" : "",
        )
      : null,
    found.victims?.length
      ? el("p", {}, "Pods that would go: ", joined(found.victims, podLink))
      : null,
    (found.edits ?? []).map((edit) =>
      copyable(commandFor(edit), `the command for ${edit.kind} ${edit.name}`),
    ),
    anew
      ? el(
          "p",
          { class: "quiet" },
          "The API does not let this field of a pod be changed, so the pod is made anew. Where a controller made it, change the controller's template instead.",
        )
      : null,
  );
}

const ago = (time) => (time ? [timeOfDay(time), " (", since(time), " ago)"] : null);

function queue(found) {
  if (!found) return null;
  const wakers = (found.waitsFor ?? []).map((waker) => ({
    ...waker,
    plugins: waker.plugins ?? [],
  }));
  const columns = [
    { title: "Event", cell: (waker) => waker.event },
    { title: "Asked for by", cell: (waker) => waker.plugins.join(", ") },
  ];
  return section(
    "Queue",
    found.message ? el("p", {}, found.message) : null,
    facts([
      ["State", found.state],
      ["Attempts", count(found.attempts)],
      ["First attempt", ago(found.initialAttempt)],
      ["In this state since", ago(found.added)],
      [
        "Tried again at the latest",
        found.nextRetry
          ? [timeOfDay(found.nextRetry), " (", since(found.nextRetry, "until"), ")"]
          : null,
      ],
      ["Held back by", found.gatedBy],
      ["Unschedulable plugins", (found.unschedulablePlugins ?? []).join(", ")],
      ["Pending plugins", (found.pendingPlugins ?? []).join(", ")],
    ]),
    wakers.length ? table("Cluster events that would have it tried again", columns, wakers) : null,
  );
}

function preemption(found) {
  if (!found) return null;
  const candidates = [
    {
      title: "Node",
      kind: "name",
      cell: (one) => [nodeLink(one.node), one.chosen ? " (chosen)" : ""],
    },
    { title: "Victims", cell: (one) => joined(one.victims ?? [], podLink) },
    {
      title: "PodDisruptionBudgets violated",
      number: true,
      cell: (one) => count(one.pdbViolations),
    },
  ];
  const refusals = [
    { title: "Why it does not help", cell: (one) => one.reason },
    { title: "Nodes", number: true, cell: (one) => count(one.nodes) },
    { title: "For example", cell: (one) => joined(one.examples ?? [], nodeLink) },
  ];
  return section(
    "Preemption",
    el("p", {}, found.message),
    found.nominatedNode ? el("p", {}, "Nominated node: ", nodeLink(found.nominatedNode)) : null,
    found.candidates?.length
      ? table("Nodes that evicting pods would free", candidates, found.candidates)
      : null,
    found.refusals?.length
      ? table("Nodes where evicting pods does not help", refusals, found.refusals)
      : null,
  );
}
