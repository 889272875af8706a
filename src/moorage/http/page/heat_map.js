// Nodes as cells on a canvas, with a cursor for the keyboard. Knows cells and groups of them; what a
// cell's colour means is told to it.

import { isBright } from "./colouring.js";
import { el } from "./dom.js";
import { colour, onTheme } from "./theme.js";

const LARGEST = 96;
const ROOM_FOR_TEXT = 64;
const SMALLEST = 5;
const TITLE = 22;
const LEAST_HEIGHT = 320;

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
    const room = Math.max(
      LEAST_HEIGHT,
      innerHeight - this.element.getBoundingClientRect().top - scrollY - 90,
    );
    let size = LARGEST;
    while (size > SMALLEST && this.heightFor(width, size) > room) size -= 1;
    this.size = size;
    this.columns = Math.max(1, Math.floor(width / size));
    this.place();
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    this.draw();
  }

  heightFor(width, size) {
    const columns = Math.max(1, Math.floor(width / size));
    return this.groups.reduce(
      (sum, group) =>
        sum + (group.title ? TITLE : 0) + Math.ceil(group.nodes.length / columns) * size,
      0,
    );
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
        const y = top + Math.floor(index / this.columns) * this.size;
        this.cells.push({ node, x: column * this.size, y, row: this.rows.length - 1, column });
      });
      top += Math.ceil(group.nodes.length / this.columns) * this.size;
    }
    this.height = top;
    this.byName = new Map(this.cells.map((cell, index) => [cell.node.node, index]));
  }

  draw() {
    if (!this.fill) return;
    const pen = this.canvas.getContext("2d");
    const ratio = devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.font = "13px system-ui, sans-serif";
    pen.fillStyle = colour("text");
    for (const group of this.groups) {
      if (group.title) pen.fillText(group.title, 0, group.top - 6);
    }
    this.drawCells(pen);
    this.drawCursor(pen);
  }

  // The name on a cell, in black or white, whichever is seen better there.
  write(pen, node, x, y, side, fill) {
    pen.fillStyle = isBright(fill) ? "#000000" : "#ffffff";
    pen.save();
    pen.beginPath();
    pen.rect(x + 3, y, side - 6, side);
    pen.clip();
    pen.fillText(node.node, x + 5, y + 18);
    pen.fillText(this.short(node), x + 5, y + 36);
    pen.restore();
  }

  drawCells(pen) {
    const gap = this.size > 7 ? 2 : 1;
    const side = this.size - gap;
    const paint = this.fill();
    const [line, cross, ground] = [colour("line"), colour("bad"), colour("ground")];
    const dim = Number(colour("dim"));
    pen.lineWidth = 1;
    for (const { node, x, y } of this.cells) {
      pen.globalAlpha = this.dimmed(node) ? dim : 1;
      const fill = paint(node);
      pen.fillStyle = fill;
      pen.fillRect(x, y, side, side);
      if (this.size >= ROOM_FOR_TEXT) this.write(pen, node, x, y, side, fill);
      if (this.size > 9) {
        pen.strokeStyle = line;
        pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
      }
      if (node.unschedulable) {
        pen.beginPath();
        pen.moveTo(x + 1, y + side - 1);
        pen.lineTo(x + side - 1, y + 1);
        // On a cell of nearly its own colour the stroke is seen by its edge.
        pen.strokeStyle = ground;
        pen.lineWidth = this.size > 9 ? 5 : 3;
        pen.stroke();
        pen.strokeStyle = cross;
        pen.lineWidth = this.size > 9 ? 2 : 1;
        pen.stroke();
        pen.lineWidth = 1;
      }
    }
    pen.globalAlpha = 1;
  }

  drawCursor(pen) {
    const cell = this.cells[this.byName.get(this.cursor)];
    if (!cell || document.activeElement !== this.element) return;
    pen.lineWidth = 3;
    pen.strokeStyle = colour("ground");
    pen.strokeRect(cell.x - 2.5, cell.y - 2.5, this.size + 3, this.size + 3);
    pen.strokeStyle = colour("focus");
    pen.strokeRect(cell.x - 0.5, cell.y - 0.5, this.size - 1, this.size - 1);
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
      return event.offsetY >= top && event.offsetY < top + this.size;
    });
    const index = row ? row[0] + Math.floor(event.offsetX / this.size) : -1;
    return row && index <= row[1] ? this.cells[index] : null;
  }

  hover(event) {
    const cell = this.at(event);
    if (cell) this.point(cell);
    else this.tip.hidden = true;
  }

  point(cell) {
    const [name, ...lines] = this.describe(cell.node);
    this.tip.replaceChildren(el("strong", {}, name), ...lines.map((line) => el("div", {}, line)));
    this.tip.hidden = false;
    const width = this.element.clientWidth;
    const left = Math.min(cell.x + this.size + 6, Math.max(0, width - this.tip.offsetWidth - 4));
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${cell.y + this.size + 6}px`;
  }
}
