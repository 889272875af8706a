// The configuration in force, and what the ledger holds.

import { get } from "./api.js";
import { copyable, el, facts, section, table } from "./dom.js";
import { count, plural } from "./format.js";

const RETRY = 5;

export async function configurationView(view) {
  view.title("Configuration");
  const load = async () => show(view, await get(["config"], {}, view.signal));
  await view.poll(RETRY, load, { once: true }).ready;
}

function show(view, { configuration, ledger }) {
  view.root.append(
    ...(configuration.profiles ?? []).map(profile),
    section("Ledger", ledgerFacts(ledger ?? {})),
    section(
      "KubeSchedulerConfiguration in force",
      copyable(JSON.stringify(configuration, null, 2), "the configuration"),
    ),
  );
}

function ledgerFacts(ledger) {
  if (!ledger.on) return el("p", {}, "Off: decisions are not kept.");
  const mebibytes = (bytes) => `${((bytes ?? 0) / 2 ** 20).toFixed(1)} MiB`;
  return facts([
    ["Decisions kept", count(ledger.decisions)],
    ["Memory", `${mebibytes(ledger.bytes)} of at most ${mebibytes(ledger.limitBytes)}`],
    ["Folder", ledger.directory || "none: kept in memory only"],
  ]);
}

function profile(one) {
  const points = Object.entries(one.plugins ?? {})
    .map(([point, set]) => ({ point, enabled: set?.enabled ?? [] }))
    .filter(({ enabled }) => enabled.length);
  const name = (plugin) =>
    plugin.weight ? `${plugin.name} (weight ${plugin.weight})` : plugin.name;
  const columns = [
    { title: "Extension point", cell: ({ point }) => point },
    { title: "Plugins", cell: ({ enabled }) => enabled.map(name).join(", ") },
  ];
  const content = points.length
    ? table(plural(points.length, "extension point"), columns, points)
    : el("p", { class: "quiet" }, "Default plugins.");
  return section(`Profile ${one.schedulerName ?? "default-scheduler"}`, content);
}
