// The way to /explain/v1: answers as objects, refusals as one sentence, the token of whoever asks.

import { signIn } from "./sign_in.js";

const TOKEN = "moorage-token";

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

// The response to a GET that was allowed; asks for a token where it was not.
export async function ask(url, { signal, more } = {}) {
  for (;;) {
    const answer = await fetch(url, {
      headers: headers({ Accept: "application/json", ...more }),
      cache: "no-store",
      signal,
    });
    if (answer.ok) return answer;
    const message = await told(answer);
    if (answer.status !== 401 && answer.status !== 403) throw new ApiError(answer.status, message);
    const token = await signIn(message);
    if (token === null) throw new ApiError(answer.status, message);
    sessionStorage.setItem(TOKEN, token);
  }
}

export async function get(segments, params, signal) {
  return (await ask(address(segments, params), { signal })).json();
}

async function told(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).message || `HTTP ${answer.status}`;
  } catch {
    return text.trim() || `HTTP ${answer.status}`;
  }
}
