// From a node to the colour of its cell: shares on a scale, names by their place in a list.

import { percent } from "./format.js";
import { colour, SERIES, series } from "./theme.js";

const STOPS = 5;

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// Is black better seen on this colour than white?
export function isBright(fill) {
  const [red, green, blue] = fill.startsWith("#") ? channels(fill) : fill.match(/\d+/g).map(Number);
  return red * 0.3 + green * 0.59 + blue * 0.11 > 140;
}

// A function from 0..1 to a colour, made anew for each drawing: the theme may have changed.
export function scale() {
  const stops = Array.from({ length: STOPS }, (_, index) => channels(colour(`scale-${index + 1}`)));
  return (share) => {
    const at = Math.min(1, Math.max(0, share || 0)) * (STOPS - 1);
    const low = Math.min(STOPS - 2, Math.floor(at));
    const mixed = stops[low].map((from, index) =>
      Math.round(from + (stops[low + 1][index] - from) * (at - low)),
    );
    return `rgb(${mixed.join(" ")})`;
  };
}

// What can be coloured by; `share` gives 0..1, `name` a category.
export function measures(resources) {
  return [
    ...resources.map((resource) => ({
      id: resource,
      title: `${resource} requested`,
      share: (node) => node.utilisation?.[resource],
    })),
    { id: "pods", title: "pods", share: (node) => (node.maxPods ? node.pods / node.maxPods : 0) },
    { id: "zone", title: "zone", name: (node) => node.zone || "no zone" },
    { id: "taints", title: "taints", name: (node) => node.taints?.join(", ") || "no taints" },
  ];
}

export function told(measure, node) {
  return measure.name ? measure.name(node) : percent(measure.share(node)) || "none there";
}

// The categories by how many nodes are in them, with their colours; rare ones share the last.
export function categories(measure, nodes) {
  const counts = new Map();
  for (const node of nodes) {
    const name = measure.name(node);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const own = sorted.length > SERIES ? SERIES - 1 : sorted.length;
  return {
    listed: sorted.slice(0, own).map(([name, nodesIn], index) => ({ name, nodes: nodesIn, index })),
    others: sorted.slice(own).reduce((sum, [, nodesIn]) => sum + nodesIn, 0),
    index: new Map(sorted.map(([name], at) => [name, Math.min(at, SERIES - 1)])),
  };
}

export function painter(measure, nodes) {
  if (measure.share) {
    const paint = scale();
    const none = colour("raised");
    return (node) => (measure.share(node) === undefined ? none : paint(measure.share(node)));
  }
  const { index } = categories(measure, nodes);
  const colours = Array.from({ length: SERIES }, (_, at) => series(at));
  return (node) => colours[index.get(measure.name(node))];
}
