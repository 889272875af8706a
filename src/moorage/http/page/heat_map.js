// Nodes as cells on a canvas, with a cursor for the keyboard. Knows cells and groups of them; what a
// cell's colour means is told to it.

import { isBright } from "./colouring.js";
import { el } from "./dom.js";
import { colour, onTheme } from "./theme.js";

const SMALLEST = 5;
const LINE = 18; // of text on a cell
const MARGIN = 5;
const ROOM_FOR_LINES = 150; // so wide a cell tells all about its node
const ASPECT = 1.4; // the nicest width of a cell in proportion to its height
const TITLE = 22;
const LEAST_HEIGHT = 370;
const BELOW = 30; // the map, before the window ends
const MANY = 500; // nodes, too many to read their names
const FONT = "13px system-ui, sans-serif";

export class HeatMap {
  // `opened` and `moved` get a node; `describe` makes the lines of the tip, `short` what is
  // written on a large cell.
  constructor({ opened, moved, describe, short, signal }) {
    this.opened = opened;
    this.moved = moved;
    this.describe = describe;
    this.short = short;
    this.groups = [];
    this.cells = [];
    this.byName = new Map();
    this.cursor = null;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.element = el(
      "div",
      {
        class: "map",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "cluster map",
        "aria-label": "Nodes of the cluster. Arrow keys move from node to node, Enter opens one.",
        onkeydown: (event) => this.key(event),
        onfocus: () => this.focused(),
        onblur: () => {
          this.tip.hidden = true;
          this.draw();
        },
      },
      this.canvas,
      this.tip,
    );
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => {
      this.tip.hidden = true;
    });
    this.canvas.addEventListener("click", (event) => {
      const cell = this.at(event);
      if (cell) this.opened(cell.node);
    });
    onTheme(() => this.draw(), signal);
    const watcher = new ResizeObserver(() => this.layOut());
    watcher.observe(this.element);
    signal.addEventListener("abort", () => watcher.disconnect());
  }

  // Groups are `{title, nodes}`; `fill` makes the painter, `dimmed` says which nodes fade.
  show(groups, fill, dimmed) {
    this.groups = groups;
    this.fill = fill;
    this.dimmed = dimmed;
    this.layOut();
  }

  layOut() {
    const width = Math.floor(this.element.clientWidth);
    if (!width || !this.fill) return;
    const top = this.element.getBoundingClientRect().top + scrollY;
    this.arrange(width, Math.max(LEAST_HEIGHT, innerHeight - top - BELOW));
    this.place();
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    this.draw();
  }

  // As many columns as fill the room best, with cells that have a good shape and room for names.
  arrange(width, height) {
    const sizes = this.groups.map((group) => group.nodes.length);
    const titles = this.groups.filter((group) => group.title).length;
    const free = Math.max(SMALLEST, height - titles * TITLE);
    const name = this.widthOfNames();
    const cells = sizes.reduce((sum, size) => sum + size, 0);
    const most = Math.max(1, Math.min(Math.max(...sizes), Math.floor(width / SMALLEST)));
    let least = Infinity;
    for (let columns = 1; columns <= most; columns += 1) {
      const rows = sizes.reduce((sum, size) => sum + Math.ceil(size / columns), 0);
      const wide = width / columns;
      const high = Math.max(SMALLEST, Math.min(Math.floor(free / rows), wide));
      const filled = (cells * wide * high) / (width * free);
      const cost =
        Math.abs(1 - filled) +
        0.2 * Math.abs(Math.log(wide / high / ASPECT)) +
        (wide >= name && high >= LINE + MARGIN ? 0 : 0.4);
      if (cost < least) {
        least = cost;
        Object.assign(this, { columns, wide, high });
      }
    }
  }

  // How wide a cell must be to show the longest name.
  widthOfNames() {
    const names = this.groups.flatMap((group) => group.nodes.map(({ node }) => node));
    if (names.length > MANY) return Infinity;
    const pen = this.canvas.getContext("2d");
    pen.font = FONT;
    return Math.max(0, ...names.map((name) => pen.measureText(name).width)) + 2 * MARGIN + 3;
  }

  place() {
    this.cells = [];
    this.rows = []; // for the keyboard: first and last cell of each row of the drawing
    let top = 0;
    for (const group of this.groups) {
      if (group.title) top += TITLE;
      group.top = top;
      group.nodes.forEach((node, index) => {
        const column = index % this.columns;
        if (column === 0) this.rows.push([this.cells.length, this.cells.length - 1]);
        this.rows.at(-1)[1] = this.cells.length;
        const x = Math.round(column * this.wide);
        const y = Math.round(top + Math.floor(index / this.columns) * this.high);
        this.cells.push({ node, x, y, row: this.rows.length - 1, column });
      });
      top += Math.ceil(group.nodes.length / this.columns) * this.high;
    }
    this.height = Math.ceil(top);
    this.byName = new Map(this.cells.map((cell, index) => [cell.node.node, index]));
  }

  draw() {
    if (!this.fill) return;
    const pen = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.font = FONT;
    pen.fillStyle = colour("text");
    for (const group of this.groups) {
      if (group.title) pen.fillText(group.title, 0, group.top - 6);
    }
    this.drawCells(pen);
    this.drawCursor(pen);
  }

  // What there is room for on a cell, in black or white, whichever is seen better there.
  write(pen, node, x, y, width, height, fill) {
    pen.fillStyle = isBright(fill) ? "#000000" : "#ffffff";
    const [name, ...others] =
      width < ROOM_FOR_LINES ? [node.node, this.short(node)] : this.describe(node);
    const room = width - 2 * MARGIN;
    // Names that begin alike differ at their ends.
    const lines = [
      shortened(pen, name, room, true),
      ...others.map((line) => shortened(pen, line, room)),
    ];
    lines.slice(0, Math.floor((height - MARGIN) / LINE)).forEach((line, index) => {
      pen.fillText(line, x + MARGIN, y + LINE * (index + 1));
    });
  }

  drawCells(pen) {
    const least = Math.min(this.wide, this.high);
    const gap = least > 7 ? 2 : 1;
    const [width, height] = [Math.floor(this.wide) - gap, Math.floor(this.high) - gap];
    const written = width >= 60 && height >= LINE + MARGIN;
    const paint = this.fill();
    const [line, cross, ground] = [colour("line"), colour("bad"), colour("ground")];
    const dim = Number(colour("dim"));
    pen.lineWidth = 1;
    for (const { node, x, y } of this.cells) {
      pen.globalAlpha = this.dimmed(node) ? dim : 1;
      const fill = paint(node);
      pen.fillStyle = fill;
      pen.fillRect(x, y, width, height);
      if (least > 9) {
        pen.strokeStyle = line;
        pen.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      }
      if (node.unschedulable) {
        pen.beginPath();
        pen.moveTo(x + 1, y + height - 1);
        pen.lineTo(x + width - 1, y + 1);
        // On a cell of nearly its own colour the stroke is seen by its edge.
        pen.strokeStyle = ground;
        pen.lineWidth = least > 9 ? 5 : 3;
        pen.stroke();
        pen.strokeStyle = cross;
        pen.lineWidth = least > 9 ? 2 : 1;
        pen.stroke();
        pen.lineWidth = 1;
      }
      if (written) this.write(pen, node, x, y, width, height, fill);
    }
    pen.globalAlpha = 1;
  }

  drawCursor(pen) {
    const cell = this.cells[this.byName.get(this.cursor)];
    if (!cell || document.activeElement !== this.element) return;
    pen.lineWidth = 3;
    pen.strokeStyle = colour("ground");
    const [wide, high] = [Math.floor(this.wide), Math.floor(this.high)];
    pen.strokeRect(cell.x - 2.5, cell.y - 2.5, wide + 3, high + 3);
    pen.strokeStyle = colour("focus");
    pen.strokeRect(cell.x - 0.5, cell.y - 0.5, wide - 1, high - 1);
  }

  focused() {
    if (!this.byName.has(this.cursor)) {
      const found = this.cells.find((cell) => !this.dimmed(cell.node)) ?? this.cells[0];
      this.cursor = found?.node.node ?? null;
    }
    this.settle();
  }

  moveTo(name) {
    this.cursor = name;
    this.element.focus();
    this.settle();
  }

  settle() {
    const cell = this.cells[this.byName.get(this.cursor)];
    if (cell) {
      this.point(cell);
      this.moved(cell.node);
    }
    this.draw();
  }

  key(event) {
    const at = this.byName.get(this.cursor) ?? 0;
    const cell = this.cells[at];
    if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
    const upDown = (step) => {
      const row = this.rows[Math.min(this.rows.length - 1, Math.max(0, cell.row + step))];
      return Math.min(row[1], row[0] + cell.column);
    };
    const page = Math.max(1, Math.floor(this.rows.length / 5));
    const moves = {
      ArrowRight: () => at + 1,
      ArrowLeft: () => at - 1,
      ArrowDown: () => upDown(1),
      ArrowUp: () => upDown(-1),
      PageDown: () => upDown(page),
      PageUp: () => upDown(-page),
      Home: () => 0,
      End: () => this.cells.length - 1,
    };
    if (event.key === "Enter") {
      event.preventDefault();
      this.opened(cell.node);
    } else if (event.key === "Escape") {
      this.tip.hidden = true;
    } else if (moves[event.key]) {
      event.preventDefault();
      const to = Math.min(this.cells.length - 1, Math.max(0, moves[event.key]()));
      this.cursor = this.cells[to].node.node;
      this.settle();
    }
  }

  at(event) {
    const row = this.rows?.find(([first]) => {
      const top = this.cells[first].y;
      return event.offsetY >= top && event.offsetY < top + this.high;
    });
    const index = row ? row[0] + Math.floor(event.offsetX / this.wide) : -1;
    return row && index <= row[1] ? this.cells[index] : null;
  }

  hover(event) {
    const cell = this.at(event);
    if (cell) this.point(cell, event.offsetX + 12, event.offsetY + 16);
    else this.tip.hidden = true;
  }

  // Show what the cell stands for, beside the pointer or at the corner of the cell.
  point(cell, x = cell.x + this.wide + 6, y = cell.y + this.high + 6) {
    const [name, ...lines] = this.describe(cell.node);
    this.tip.replaceChildren(el("strong", {}, name), ...lines.map((line) => el("div", {}, line)));
    this.tip.hidden = false;
    const width = this.element.clientWidth;
    this.tip.style.left = `${Math.min(x, Math.max(0, width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y}px`;
  }
}

// As much of a text as there is room for: its beginning, or (`end`) its end.
function shortened(pen, text, room, end = false) {
  if (pen.measureText(text).width <= room) return text;
  const cut = (length) => (end ? `…${text.slice(-length)}` : `${text.slice(0, length)}…`);
  let length = text.length - 1;
  while (length > 1 && pen.measureText(cut(length)).width > room) length -= 1;
  return cut(length);
}
