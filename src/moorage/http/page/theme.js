// Light or dark: as the system says, or as chosen here. Those who draw by hand are told of changes.

const KEY = "moorage-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawers = new Set();

export function startTheme(select) {
  const chosen = localStorage.getItem(KEY);
  if (["light", "dark"].includes(chosen)) select.value = chosen;
  const apply = () => {
    const shade = select.value === "auto" ? (dark.matches ? "dark" : "light") : select.value;
    document.documentElement.dataset.theme = select.value;
    document.documentElement.dataset.shade = shade;
    for (const draw of drawers) draw();
  };
  select.addEventListener("change", () => {
    localStorage.setItem(KEY, select.value);
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

export function onTheme(draw, signal) {
  drawers.add(draw);
  signal.addEventListener("abort", () => drawers.delete(draw));
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const SERIES = 8;
export const series = (index) => colour(`series-${(index % SERIES) + 1}`);
