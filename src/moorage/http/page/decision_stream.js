// Decisions as they are made: one stream of server-sent events for the whole page.
//
// Read with fetch instead of EventSource, which cannot send a token. A browser has six connections
// to a host for all its tabs, so that a page in the background holds none.

import { address, ask } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;
const SILENCE = 45000; // three times as long as the scheduler ever is silent

const listeners = new Set();
let connection = null;
let lastId = "";
export const state = { live: false, refused: false };

// `listener` gets each decision after number `since`, or from now on; `connected` is told when the
// stream comes and goes.
export function follow(listener, connected = () => {}, since = null) {
  const entry = { listener, connected };
  if (listeners.size === 0) comeBackAfter(since);
  listeners.add(entry);
  begin();
  connected(state.live);
  return () => {
    listeners.delete(entry);
    if (listeners.size === 0) end();
  };
}

// The number to come back with: that of the latest decision that is known by other means.
export function comeBackAfter(number) {
  lastId = number === null ? "" : String(number);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) end();
  else begin();
});

function begin() {
  if (connection || listeners.size === 0 || document.hidden) return;
  connection = new AbortController();
  state.refused = false;
  run(connection.signal);
}

function end() {
  connection?.abort();
  connection = null;
  tell(false);
}

function tell(live) {
  state.live = live;
  for (const entry of listeners) entry.connected(live);
}

async function run(signal) {
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const more = lastId ? { "Last-Event-ID": lastId } : {};
      const body = await ask(address(["decisions", "stream"]), (answer) => answer.body, {
        signal,
        more: { Accept: "text/event-stream", ...more },
      });
      if (signal.aborted) return;
      tell(true);
      wait = FIRST_WAIT;
      await read(body, signal);
    } catch (error) {
      if (signal.aborted) return;
      state.refused = error.status === 400 || error.status === 404; // no ledger, no stream
    }
    if (signal.aborted) return;
    tell(false);
    if (state.refused) return;
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}

async function read(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const timer = setTimeout(() => reader.cancel(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done || signal.aborted) return;
    const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = events.pop();
    for (const text of events) handle(text);
  }
}

function handle(text) {
  let name = "message";
  const data = [];
  for (const line of text.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "id") lastId = value;
    else if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  if (name !== "decision" || data.length === 0) return;
  const decision = JSON.parse(data.join("\n"));
  for (const entry of [...listeners]) entry.listener(decision);
}
