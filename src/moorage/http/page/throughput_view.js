// How many pods per second, and how long each takes.

import { get } from "./api.js";
import { chart } from "./charts.js";
import { el, refresh, section, table, tile, tiles } from "./dom.js";
import { count, duration, timeOfDay } from "./format.js";
import { counts } from "./queue_view.js";
import { colour } from "./theme.js";

export async function throughputView(view) {
  view.title("Throughput");
  const totals = el("div");
  const waiting = el("div");
  const [rate, latency] = [el("div"), el("div")];
  const list = el("div");
  const details = el("details", {}, el("summary", {}, "The last two minutes as a table"), list);
  let stats = { seconds: [] };
  view.root.append(
    totals,
    waiting,
    section("Attempts per second", rate),
    section("Time per attempt", latency),
    details,
  );
  const drawRate = chart(
    rate,
    "Attempts per second over the last two minutes; the table below has the numbers",
    () => rates(stats),
    view.signal,
  );
  const drawLatency = chart(
    latency,
    "Median and 99th percentile of the time per attempt over the last two minutes; the table below has the numbers",
    () => latencies(stats),
    view.signal,
  );
  await view.poll(2, async () => {
    stats = await get(["stats"], {}, view.signal);
    refresh(totals, [stats.scheduled, stats.unschedulable, stats.errors], () =>
      sinceTheStart(stats),
    );
    refresh(waiting, { pending: stats.pending, leading: stats.leading }, counts);
    if (details.open) drawTable(list, stats);
    drawRate();
    drawLatency();
  }).ready;
  details.addEventListener("toggle", () => drawTable(list, stats));
}

function sinceTheStart(stats) {
  return tiles(
    "Since the start",
    tile(count(stats.scheduled), "scheduled"),
    tile(count(stats.unschedulable), "attempts without a node"),
    tile(count(stats.errors), "errors"),
  );
}

const times = (stats) => stats.seconds.map((second) => new Date(second.time * 1000));

function rates(stats) {
  const line = (name, title, tint) => ({
    type: "bar",
    name: title,
    x: times(stats),
    y: stats.seconds.map((second) => second[name] ?? 0),
    marker: { color: tint },
  });
  return {
    traces: [
      line("scheduled", "scheduled", colour("series-1")),
      line("unschedulable", "unschedulable", colour("series-2")),
    ],
    layout: {
      barmode: "stack",
      xaxis: { type: "date", fixedrange: true },
      yaxis: { rangemode: "tozero", fixedrange: true },
    },
  };
}

function latencies(stats) {
  const line = (name, title, tint, dash) => ({
    type: "scatter",
    mode: "lines+markers",
    name: title,
    x: times(stats),
    connectgaps: false,
    y: stats.seconds.map((second) => (second[name] ? second[name] * 1000 : null)),
    line: { color: tint, dash },
    marker: { size: 4 },
  });
  return {
    traces: [
      line("p50", "median", colour("series-1"), "solid"),
      line("p99", "99th percentile", colour("series-2"), "dot"),
    ],
    layout: {
      xaxis: { type: "date", fixedrange: true },
      yaxis: { rangemode: "tozero", ticksuffix: " ms", fixedrange: true },
    },
  };
}

function drawTable(list, stats) {
  const columns = [
    { title: "Time", cell: (second) => timeOfDay(second.time) },
    { title: "Scheduled", number: true, cell: (second) => count(second.scheduled) },
    { title: "Unschedulable", number: true, cell: (second) => count(second.unschedulable) },
    { title: "Median", number: true, cell: (second) => (second.p50 ? duration(second.p50) : "") },
    {
      title: "99th percentile",
      number: true,
      cell: (second) => (second.p99 ? duration(second.p99) : ""),
    },
  ];
  const rows = stats.seconds.filter((second) => second.scheduled || second.unschedulable).reverse();
  refresh(list, rows, () =>
    table("Seconds in which something was tried, newest first", columns, rows),
  );
}
