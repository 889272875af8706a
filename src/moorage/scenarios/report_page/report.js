// The plots of a report; its tables are there already.

const { result, rows } = JSON.parse(document.getElementById("data").textContent);
const schedulers = result.schedulers;
const dark = matchMedia("(prefers-color-scheme: dark)");
const OPTIONS = { responsive: true, displaylogo: false, displayModeBar: false };
const COURSES = {
  allocation: ["allocated", 100, "%"],
  utilisation: ["used", 100, "%"],
  imbalance: ["imbalance", 100, "%"],
  zoneSkew: ["zones' skew", 100, "%"],
};

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const series = (index) => colour(`series-${(index % 8) + 1}`);
// Plotly reads a few HTML tags in its texts; names are to be shown as they are.
const plain = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function layout(own) {
  const [text, line] = [colour("text"), colour("line")];
  const axis = (given) => ({
    gridcolor: line,
    zerolinecolor: line,
    linecolor: line,
    automargin: true,
    ...given,
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, family: "system-ui, sans-serif", size: 13 },
    margin: { l: 60, r: 20, t: 40, b: 50 },
    legend: { orientation: "h", y: 1, yanchor: "bottom" },
    hoverlabel: { bgcolor: colour("raised"), bordercolor: line, font: { color: text } },
    ...own,
    xaxis: axis(own.xaxis),
    yaxis: axis({ rangemode: "tozero", ...own.yaxis }),
  };
}

function draw(id, traces, own) {
  const box = document.getElementById(id);
  return Plotly.react(box, traces, layout(own), OPTIONS).then(() => {
    box.dataset.drawn = "true";
  });
}

// All that is there over time: [title, unit, how to find it in the samples of a run].
function courses() {
  const samples = schedulers[0].runs[0].samples;
  const found = [["pods pending", 1, "", (one) => one.pending]];
  for (const [kind, [title, factor, unit]] of Object.entries(COURSES))
    for (const name of Object.keys(samples[kind]))
      if (samples[kind][name].some((value) => value > 0))
        found.push([`${name} ${title}`, factor, unit, (one) => one[kind][name]]);
  return found;
}

function drawCourse(chosen) {
  const [title, factor, unit, take] = chosen;
  const traces = schedulers.flatMap((scheduler, place) =>
    scheduler.runs.map((run, number) => ({
      x: run.samples.seconds.map((seconds) => seconds / 3600),
      y: (take(run.samples) ?? []).map((value) => value * factor),
      mode: "lines",
      line: { color: series(place), width: number ? 1 : 2, shape: "hv" },
      opacity: number ? 0.45 : 1,
      name: plain(scheduler.name),
      legendgroup: scheduler.name,
      showlegend: number === 0,
      hovertemplate: `%{y:.2f}${unit} at %{x:.2f} h<extra>${plain(scheduler.name)}, seed ${run.seed}</extra>`,
    })),
  );
  const y = { title: { text: plain(unit ? `${title}, ${unit}` : title) } };
  return draw("course-plot", traces, { xaxis: { title: { text: "hours" } }, yaxis: y });
}

// The value of a measure in a run: its path is made of the names on the way, which may hold dots.
function valueOf(part, path) {
  if (path === "") return part;
  if (part === null || typeof part !== "object") return undefined;
  for (const name of Object.keys(part))
    if (path === name || path.startsWith(`${name}.`)) {
      const found = valueOf(part[name], path.slice(name.length + 1));
      if (found !== undefined) return found;
    }
  return undefined;
}

function drawMeasure(row) {
  const traces = schedulers.map((scheduler, place) => ({
    x: scheduler.runs.map((run) => `seed ${run.seed}`),
    y: scheduler.runs.map((run) => {
      const value = valueOf(run, row.name);
      return typeof value === "number" ? value * row.unit : null;
    }),
    mode: "markers+lines",
    line: { color: series(place), width: 1, dash: "dot" },
    marker: { color: series(place), size: 9 },
    name: plain(scheduler.name),
  }));
  return draw("measure-plot", traces, {
    xaxis: { type: "category" },
    yaxis: { title: { text: plain(row.title) } },
  });
}

function drawWaste() {
  const parts = schedulers.map((scheduler) => scheduler.runs[0].fragmentation);
  const bars = [];
  const causes = new Set();
  for (const [place, found] of parts.entries())
    for (const [name, { because }] of Object.entries(found))
      for (const [cause, share] of Object.entries(because)) {
        causes.add(cause);
        bars.push([`${schedulers[place].name}: ${name}`, cause, share * 100]);
      }
  if (!bars.length) {
    document.getElementById("waste").hidden = true;
    return Promise.resolve();
  }
  const traces = [...causes].sort().map((cause, place) => {
    const own = bars.filter((bar) => bar[1] === cause);
    return {
      type: "bar",
      orientation: "h",
      y: own.map((bar) => plain(bar[0])),
      x: own.map((bar) => bar[2]),
      marker: { color: series(place) },
      name: plain(`for want of ${cause}`),
    };
  });
  const x = { title: { text: `% of the resource, mean over time, seed ${schedulers[0].runs[0].seed}` } };
  return draw("waste-plot", traces, {
    barmode: "stack",
    xaxis: x,
    yaxis: { type: "category", rangemode: "normal" },
  });
}

function choice(id, titles, drawn, first) {
  const select = document.getElementById(id);
  for (const [place, title] of titles.entries()) select.add(new Option(title, place));
  select.value = first;
  select.addEventListener("change", () => drawn(Number(select.value)));
  return () => drawn(Number(select.value));
}

const found = courses();
const course = choice(
  "course",
  found.map((one) => one[0]),
  (place) => drawCourse(found[place]),
  found.length > 1 ? 1 : 0,
);
const measure = choice(
  "measure",
  rows.map((row) => row.title),
  (place) => drawMeasure(rows[place]),
  0,
);

function drawAll() {
  document.documentElement.dataset.shade = dark.matches ? "dark" : "light";
  course();
  measure();
  drawWaste();
}
dark.addEventListener("change", drawAll);
drawAll();
