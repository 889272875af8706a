// The way to /explain/v1: answers as objects, refusals as one sentence, the token of whoever asks.

import { signIn } from "./sign_in.js";

const TOKEN = "moorage-token";
const PATIENCE = 30;
const MANY = 10000; // the API gives no more at once

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export function address(segments, params = {}) {
  const path = segments.map(encodeURIComponent).join("/");
  const url = new URL(`v1/${path}`, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

// What `read` makes of the response to a GET that was allowed; asks for a token where it was not.
export async function ask(url, read, { signal, more } = {}) {
  for (;;) {
    const { refused, made } = await inTime(signal, async (limited) => {
      const answer = await fetch(url, {
        headers: headers({ Accept: "application/json", ...more }),
        cache: "no-store",
        signal: limited,
      });
      return answer.ok
        ? { made: await read(answer) }
        : { refused: new ApiError(answer.status, await told(answer)) };
    });
    if (!refused) return made;
    if (refused.status !== 401 && refused.status !== 403) throw refused;
    const token = await signIn(refused.message);
    if (token === null) throw refused;
    sessionStorage.setItem(TOKEN, token);
  }
}

export function get(segments, params, signal) {
  return ask(address(segments, params), (answer) => answer.json(), { signal });
}

// Pods in the order of their names, as many as are `wanted`; `more`: there are others. `which` has
// their state, and perhaps their namespace.
export async function podList(which, wanted, signal) {
  const found = { items: [], total: 0, more: false, namespaces: [] };
  let rest = "";
  do {
    const limit = Math.min(MANY, wanted - found.items.length);
    const answer = await get(["pods"], { ...which, limit, continue: rest }, signal);
    found.items.push(...answer.items);
    found.total = answer.total ?? found.items.length;
    found.namespaces = answer.namespaces ?? [];
    rest = answer.continue;
  } while (rest && found.items.length < wanted);
  found.more = Boolean(rest);
  return found;
}

// Do `work`, which gets a signal of its own, but wait for it no longer than anybody would.
async function inTime(signal, work) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), PATIENCE * 1000);
  try {
    return await work(signal ? AbortSignal.any([signal, late.signal]) : late.signal);
  } catch (error) {
    if (!late.signal.aborted || signal?.aborted) throw error;
    throw new ApiError(0, `The scheduler did not answer within ${PATIENCE} seconds.`);
  } finally {
    clearTimeout(timer);
  }
}

async function told(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).message || `HTTP ${answer.status}`;
  } catch {
    return text.trim() || `HTTP ${answer.status}`;
  }
}
