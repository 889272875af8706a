// One decision of the ledger, whole.

import { get } from "./api.js";
import { result } from "./decisions_view.js";
import { el, facts, link, nodeLink, podLink } from "./dom.js";
import { MatrixPages, rejections, Scores } from "./evidence.js";
import { count, duration, timeOfDay } from "./format.js";

const TOP = 10;
const RETRY = 5;

export async function decisionView(view) {
  const [, number] = view.segments;
  view.title(`Decision ${number}`);
  const path = ["decisions", number];
  const load = async () => show(view, path, await get(path, { top: TOP }, view.signal));
  await view.poll(RETRY, load, { once: true }).ready;
}

function show(view, path, found) {
  const { decision } = found;
  const scores = new Scores(view.signal);
  const matrix = new MatrixPages(view, (offset, limit) =>
    get(path, { matrix: true, offset, limit, top: 1 }, view.signal),
  );
  view.root.append(
    el(
      "p",
      { class: "sentence" },
      podLink(decision.pod),
      " ",
      result(decision),
      decision.node ? [" on ", nodeLink(decision.node)].flat() : "",
    ),
    facts([
      ["Message", decision.message],
      ["Note", found.note || null],
      ["Time", timeOfDay(decision.time)],
      ["Feasible nodes", `${count(decision.feasible)} of ${count(decision.nodes)}`],
      ["Nominated node", decision.nominatedNode ? nodeLink(decision.nominatedNode) : null],
      ["Score", decision.score ?? null],
      ["Attempt", decision.attempts ?? null],
      ["Took", decision.seconds ? duration(decision.seconds) : null],
      ["Profile", decision.profile],
      ["Known from", found.source],
      ["Others about the pod", link(["decisions"], "list them", { pod: decision.pod })],
    ]),
    rejections(found.rejections),
    scores.box,
    matrix.box,
  );
  scores.show(found.scores);
}
