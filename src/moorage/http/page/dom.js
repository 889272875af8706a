// Elements made from values. Whatever an object of the cluster says goes in as text: nothing here
// takes markup, and links lead only to views of this page.

import { age } from "./format.js";

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function route(segments, params = {}) {
  const asked = Object.entries(params).filter(([, value]) => value !== "" && value !== null);
  const query = new URLSearchParams(asked).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

export function link(segments, text, params) {
  return el("a", { href: route(segments, params) }, text);
}

export function podLink(key) {
  return link(["pods", ...key.split("/")], key);
}

export function nodeLink(name) {
  return name ? link(["nodes", name], name) : "";
}

export function tag(text) {
  return el("span", { class: "tag" }, text);
}

export function joined(items, make = (item) => item, between = ", ") {
  return items.flatMap((item, index) => (index ? [between, make(item)] : [make(item)]));
}

export function section(title, ...content) {
  const id = `part-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  return el("section", { "aria-labelledby": id }, el("h2", { id }, title), ...content);
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    { class: "facts" },
    shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

// Figures in a row, each over what it counts; `more` goes below.
export function tiles(label, ...entries) {
  return el("ul", { class: "tiles", "aria-label": label }, entries);
}

export function tile(figure, text, more = null) {
  return el("li", {}, el("span", { class: "figure" }, figure), text, more);
}

// The share of something that is taken, as a bar.
export function meter(share, label) {
  const value = Math.min(1, share);
  return el("meter", { min: 0, max: 1, high: 0.9, value, "aria-label": label });
}

const kind = (column) => [column.number && "number", column.kind].filter(Boolean).join(" ") || null;

// A table of `rows`; each column has a `title` and makes its `cell`, with `number` to the right. In a
// narrow window each row is a card, where roles say what elements that are laid out anew do not.
export function table(caption, columns, rows) {
  const head = columns.map((column) =>
    el("th", { scope: "col", role: "columnheader", class: kind(column) }, column.title),
  );
  const whole = el(
    "table",
    { class: "cards", role: "table" },
    el("caption", {}, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
    el(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) => tableRow(columns, row)),
    ),
  );
  return scrolled(caption, whole);
}

export function tableRow(columns, row, attributes = {}) {
  const [first, ...others] = columns;
  const name = { scope: "row", role: "rowheader", class: kind(first) };
  return el(
    "tr",
    { role: "row", ...attributes },
    el("th", name, first.cell(row)),
    others.map((column) =>
      el("td", { role: "cell", class: kind(column), "data-title": column.title }, column.cell(row)),
    ),
  );
}

// Something wide, to be moved sideways with the keyboard as well.
export function scrolled(name, content) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, content);
}

// How long ago a time was, or (`until`) how long it is until then; `tellAges` keeps it true.
export function since(seconds, kind = "age") {
  if (!seconds) return "";
  const made = el("time", {
    "data-since": seconds,
    "data-kind": kind,
    datetime: new Date(seconds * 1000).toISOString(),
  });
  tellAge(made);
  return made;
}

function tellAge(shown) {
  const now = Date.now() / 1000;
  const at = Number(shown.dataset.since);
  const text =
    shown.dataset.kind === "age" ? age(now - at) : at > now ? `in ${age(at - now)}` : "due";
  if (shown.textContent !== text) shown.textContent = text;
}

export function tellAges(box) {
  for (const shown of box.querySelectorAll("time[data-since]")) tellAge(shown);
}

// Fill `box` anew if `data` changed since the last time, and leave the keyboard where it was.
export function refresh(box, data, build) {
  const key = JSON.stringify(data);
  if (box.drawn === key) return false;
  box.drawn = key;
  const place = focusedIn(box);
  const moved = [...box.querySelectorAll(".scroll")].map((at) => at.scrollLeft);
  box.replaceChildren(...[build(data)].flat().filter(Boolean));
  box.querySelectorAll(".scroll").forEach((at, index) => {
    if (moved[index]) at.scrollLeft = moved[index];
  });
  if (place) like(box, place.known)[place.index]?.focus({ preventScroll: true });
  return true;
}

// What has the focus in `box`: what it is known by, and the how manieth of those it is.
function focusedIn(box) {
  const at = document.activeElement;
  if (!at || at === box || !box.contains(at)) return null;
  const known = knownBy(at);
  return { known, index: like(box, known).indexOf(at) };
}

const knownBy = (at) =>
  at.classList.contains("scroll") // it is named after what it shows, which changes
    ? "scroll"
    : [
        at.tagName,
        at.id,
        at.getAttribute("href"),
        at.getAttribute("aria-label"),
        at.getAttribute("href") || at.id ? "" : at.textContent,
      ].join("\n");
const like = (box, known) =>
  [...box.querySelectorAll("a, button, input, select, summary, [tabindex]")].filter(
    (at) => knownBy(at) === known,
  );

// Tell those who listen rather than look; a repeated sentence is not told again.
export function say(text) {
  const said = document.getElementById("said");
  if (said.textContent !== text) said.textContent = text;
}

export function copyable(text, what) {
  const button = el(
    "button",
    {
      type: "button",
      "aria-label": `Copy ${what}`,
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(text);
          button.textContent = "Copied";
          say(`Copied ${what}`);
        } catch {
          const range = document.createRange();
          range.selectNodeContents(shown);
          getSelection().removeAllRanges();
          getSelection().addRange(range);
          say("Selected; copy it with the keyboard");
        }
      },
    },
    "Copy",
  );
  const shown = el(
    "pre",
    { class: "wrap", tabindex: 0, role: "group", "aria-label": what },
    el("code", {}, text),
  );
  return el("div", { class: "copy" }, shown, button);
}

// Page through `total` things, `size` at a time; `turn` gets the new offset. On the last page "Next"
// does nothing, but keeps the focus, which a disabled button would lose.
export function pager(total, offset, size, turn, what) {
  if (total <= size) return null;
  const step = (text, to, off) =>
    el(
      "button",
      { type: "button", "aria-disabled": off ? "true" : null, onclick: () => off || turn(to) },
      text,
    );
  const last = Math.min(offset + size, total);
  return el(
    "nav",
    { class: "controls", "aria-label": `Pages of ${what}` },
    step("Previous", Math.max(0, offset - size), offset === 0),
    el("span", {}, `${offset + 1} to ${last} of ${total}`),
    step("Next", offset + size, last >= total),
  );
}
