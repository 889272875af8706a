// How many pods per second, and how long each takes: over the whole ledger, or of late.

import { get } from "./api.js";
import { chart } from "./charts.js";
import { el, refresh, section, table, tile, tiles } from "./dom.js";
import { age, count, duration, plural, timeOfDay } from "./format.js";
import { counts } from "./queue_view.js";
import { colour } from "./theme.js";

const POINTS = 120;

export async function throughputView(view) {
  view.title("Throughput");
  const reach = el(
    "select",
    {
      onchange: () => {
        view.keep({ reach: reach.value });
        anew();
      },
    },
    el("option", { value: "" }, "the whole ledger"),
    el("option", { value: "minutes" }, "the last two minutes"),
  );
  reach.value = view.params.get("reach") === "minutes" ? "minutes" : "";
  const [totals, waiting, told] = [el("div"), el("div"), el("p", { class: "quiet" })];
  const [rate, latency, list] = [el("div"), el("div"), el("div")];
  const details = el("details", {}, el("summary", {}, "The same as a table"), list);
  let attempts = { width: 1, spans: [] };
  const charts = el("div", { hidden: true }, [
    section("Attempts per second", rate),
    section("Time per attempt", latency),
    details,
  ]);
  view.root.append(
    totals,
    waiting,
    el("div", { class: "controls" }, el("label", {}, "Show ", reach)),
    told,
    charts,
  );
  const drawRate = chart(
    rate,
    "Attempts per second; the table below has the numbers",
    () => rates(attempts, rate),
    view.signal,
  );
  const drawLatency = chart(
    latency,
    "Median and 99th percentile of the time per attempt; the table below has the numbers",
    () => latencies(attempts, latency),
    view.signal,
  );
  const { anew, ready } = view.poll(2, async () => {
    const whole = !reach.value;
    const [stats, ledger] = await Promise.all([
      get(["stats"], {}, view.signal),
      whole ? get(["throughput"], { points: POINTS }, view.signal) : null,
    ]);
    attempts = ledger ?? { width: 1, spans: stats.seconds };
    refresh(totals, [stats.scheduled, stats.unschedulable, stats.errors], () =>
      sinceTheStart(stats),
    );
    refresh(waiting, { pending: stats.pending, leading: stats.leading }, counts);
    told.textContent = whole ? reached(attempts) : "";
    charts.hidden = !attempts.spans.length;
    if (charts.hidden) return;
    if (details.open) drawTable(list, attempts);
    drawRate();
    drawLatency();
  });
  details.addEventListener("toggle", () => drawTable(list, attempts));
  await ready;
}

function reached({ width, spans }) {
  if (!spans.length) return "It holds no decisions yet.";
  const from = timeOfDay(spans[0].time);
  return `From ${from} on, in spans of ${width === 1 ? "a second" : age(width)}.`;
}

function sinceTheStart(stats) {
  return tiles(
    "Since the start",
    tile(count(stats.scheduled), "scheduled"),
    tile(count(stats.unschedulable), "attempts without a node"),
    tile(count(stats.errors), "errors"),
  );
}

const times = ({ spans }) => spans.map((span) => new Date(span.time * 1000));

const timeAxis = (box) => ({
  type: "date",
  fixedrange: true,
  tickangle: 0,
  nticks: Math.floor(box.clientWidth / 110),
});

function rates(attempts, box) {
  const line = (name, tint) => ({
    type: "bar",
    name,
    x: times(attempts),
    y: attempts.spans.map((span) => (span[name] ?? 0) / attempts.width),
    marker: { color: tint },
  });
  return {
    traces: [
      line("scheduled", colour("series-1")),
      line("unschedulable", colour("series-2")),
      line("errors", colour("series-5")),
    ],
    layout: {
      barmode: "stack",
      xaxis: timeAxis(box),
      yaxis: { rangemode: "tozero", fixedrange: true },
    },
  };
}

function latencies(attempts, box) {
  const line = (name, title, tint, dash) => ({
    type: "scatter",
    mode: "lines+markers",
    name: title,
    x: times(attempts),
    connectgaps: false,
    y: attempts.spans.map((span) => (span[name] ? span[name] * 1000 : null)),
    line: { color: tint, dash },
    marker: { size: 4 },
  });
  return {
    traces: [
      line("p50", "median", colour("series-1"), "solid"),
      line("p99", "99th percentile", colour("series-2"), "dot"),
    ],
    layout: {
      xaxis: timeAxis(box),
      yaxis: { rangemode: "tozero", ticksuffix: " ms", fixedrange: true },
    },
  };
}

function drawTable(list, { width, spans }) {
  const columns = [
    { title: "From", cell: (span) => timeOfDay(span.time) },
    { title: "Scheduled", number: true, cell: (span) => count(span.scheduled) },
    { title: "Unschedulable", number: true, cell: (span) => count(span.unschedulable) },
    { title: "Errors", number: true, cell: (span) => count(span.errors) },
    { title: "Median", number: true, cell: (span) => (span.p50 ? duration(span.p50) : "") },
    {
      title: "99th percentile",
      number: true,
      cell: (span) => (span.p99 ? duration(span.p99) : ""),
    },
  ];
  const busy = spans.filter((span) => span.scheduled || span.unschedulable || span.errors);
  const caption = `Spans of ${plural(width, "second")} in which something was tried, newest first`;
  refresh(list, [busy, width], () => table(caption, columns, busy.reverse()));
}
