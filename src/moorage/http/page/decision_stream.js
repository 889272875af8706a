// Decisions as they are made: one stream of server-sent events for the whole page.
//
// Read with fetch instead of EventSource, which cannot send a token.

import { address, ask } from "./api.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;

const listeners = new Set();
let connection = null;
let lastId = "";
export const state = { live: false };

// `listener` gets each decision after number `since`, or from now on; `connected` is told when the
// stream comes and goes.
export function follow(listener, connected = () => {}, since = null) {
  const entry = { listener, connected };
  listeners.add(entry);
  if (!connection) {
    connection = new AbortController();
    lastId = since === null ? "" : String(since);
    run(connection.signal);
  }
  connected(state.live);
  return () => {
    listeners.delete(entry);
    if (listeners.size === 0 && connection) {
      connection.abort();
      connection = null;
      lastId = "";
      state.live = false;
    }
  };
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
      const answer = await ask(address(["decisions", "stream"]), {
        signal,
        more: { Accept: "text/event-stream", ...more },
      });
      tell(true);
      wait = FIRST_WAIT;
      await read(answer.body, signal);
    } catch (error) {
      if (signal.aborted || error.status === 404) return; // no ledger, no stream
    }
    if (signal.aborted) return;
    tell(false);
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}

async function read(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
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
