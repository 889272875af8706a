// Charts with Plotly, which is loaded when the first one is drawn: it is larger than all the rest.

import { colour, onTheme } from "./theme.js";

let loading = null;

// As a module, since the policy lets no script be added to the document; it leaves its name globally.
function library() {
  loading ??= import("./plotly.min.js").then(
    ({ missing }) => {
      if (missing) throw new Error(missing);
      return globalThis.Plotly;
    },
    () => {
      loading = null;
      throw new Error("The charts' library could not be loaded.");
    },
  );
  return loading;
}

// Plotly reads a few HTML tags in its texts; names of objects are to be shown as they are.
export function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

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
    margin: { l: 60, r: 20, t: 40, b: 40 },
    legend: { orientation: "h", y: 1, yanchor: "bottom", traceorder: "normal" },
    hoverlabel: { bgcolor: colour("raised"), bordercolor: line, font: { color: text } },
    ...own,
    xaxis: axis(own.xaxis),
    yaxis: axis(own.yaxis),
  };
}

const OPTIONS = {
  responsive: true,
  displaylogo: false,
  displayModeBar: false,
  showSendToCloud: false,
};

// A chart in `box`. `make` gives traces and layout, with colours as they are then; `draw` anew at will.
export function chart(box, label, make, signal) {
  box.classList.add("chart");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", label);
  const draw = async () => {
    const plotly = await library();
    if (signal.aborted || !box.isConnected) return;
    const { traces, layout: own } = make();
    await plotly.react(box, traces, layout(own), OPTIONS);
    box.dataset.drawn = "true";
  };
  const drawn = () =>
    draw().catch((error) => {
      if (!signal.aborted) box.textContent = error.message;
    });
  onTheme(drawn, signal);
  signal.addEventListener("abort", () => globalThis.Plotly?.purge(box));
  return drawn;
}
