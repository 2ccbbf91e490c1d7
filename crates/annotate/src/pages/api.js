// Requests to the server: the CSRF token, errors that can be told apart, and patience.

/** Attempts end after this many milliseconds: a connection that hangs is no connection. */
const TIMEOUT = 20_000;
/** Uploads may take longer. */
const UPLOAD_TIMEOUT = 300_000;
/** Seconds between attempts grow to this many. */
const LONGEST_WAIT = 15;

let csrf = "";
let person = null;
let skew = 0;

/** The server answered, and said no. */
export class Refused extends Error {
  constructor(status, code, message, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Nothing was heard from the server. */
export class Unreachable extends Error {}

/** Whether trying again later, with the same key, makes sense. */
export function isTemporary(error) {
  return (
    error instanceof Unreachable ||
    (error instanceof Refused && (error.status === 429 || error.status >= 500))
  );
}

/** What to tell people about an error. */
export function explain(error) {
  if (error instanceof Unreachable) return "Not connected. Please try again in a moment.";
  if (error instanceof Refused) return error.message;
  return "Something went wrong on this page. Reloading it may help.";
}

/** Now, by the server's clock, to about a second: other times of the server compare with it. */
export function serverNow() {
  return Date.now() + skew;
}

/** Who is signed in. Also learns the CSRF token that everything else needs. */
export async function whoAmI() {
  const me = await send("GET", "/api/me");
  if (person !== null && person !== me.person.id) {
    // Somebody else signed in in another tab. Nothing on this page may be sent in their name.
    location.reload();
    return new Promise(() => {});
  }
  person = me.person.id;
  csrf = me.csrf;
  return me;
}

/**
 * One request. `body` is sent as JSON, or as it is when it is a Blob. Answers with the parsed JSON,
 * or null where there is none; throws Refused or Unreachable.
 */
export async function request(method, path, body, options = {}) {
  try {
    return await send(method, path, body, options);
  } catch (error) {
    // Somebody signed in anew in another tab: the token changed, the person may be the same.
    if (!(error instanceof Refused && error.status === 403) || method === "GET") throw error;
    const before = csrf;
    await whoAmI();
    if (csrf === before) throw error;
    return await send(method, path, body, options);
  }
}

async function send(method, path, body, { signal, keepalive } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  const raw = body instanceof Blob;
  if (raw) headers["Content-Type"] = "application/octet-stream";
  else if (body !== undefined) headers["Content-Type"] = "application/json";

  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), raw ? UPLOAD_TIMEOUT : TIMEOUT);
  const giveUp = () => stop.abort();
  signal?.addEventListener("abort", giveUp);
  try {
    const response = await fetch(path, {
      method,
      headers,
      body: raw || body === undefined ? body : JSON.stringify(body),
      signal: stop.signal,
      cache: "no-store",
      keepalive,
    });
    const date = Date.parse(response.headers.get("Date") ?? "");
    if (Number.isFinite(date)) skew = date + 500 - Date.now();
    const text = await response.text();
    if (!response.ok) throw refusal(response, text);
    return text === "" ? null : JSON.parse(text);
  } catch (error) {
    if (error instanceof Refused || signal?.aborted) throw error;
    throw new Unreachable(String(error));
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}

function refusal(response, text) {
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  try {
    const { code, message } = JSON.parse(text);
    return new Refused(response.status, code, message, retryAfter);
  } catch {
    return new Refused(response.status, "", `The server answered ${response.status}.`, retryAfter);
  }
}

/**
 * Tries until the server has answered, for good or ill: 1, 2, 4 up to 15 seconds apart, and at once
 * when the browser says that it is online again. `onTrouble` hears of every attempt that failed.
 */
export async function untilAnswered(attempt, onTrouble = () => {}) {
  let wait = 1;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isTemporary(error)) throw error;
      onTrouble(error);
      const told = error.retryAfter ?? 0;
      // Jitter, so that a room full of people does not come back in the same instant.
      const seconds = Math.max(wait * (0.8 + 0.4 * Math.random()), told);
      const online = await sleep(seconds * 1000, told === 0);
      wait = online ? 1 : Math.min(wait * 2, LONGEST_WAIT);
    }
  }
}

/** Waits; true when the browser came online before the time was over. */
function sleep(milliseconds, wakeWhenOnline) {
  return new Promise((resolve) => {
    const wake = (online) => {
      clearTimeout(timer);
      window.removeEventListener("online", onOnline);
      resolve(online);
    };
    const onOnline = () => wake(true);
    const timer = setTimeout(() => wake(false), milliseconds);
    if (wakeWhenOnline) window.addEventListener("online", onOnline);
  });
}

/** A key for one act, from 128 random bits. (`crypto.randomUUID` is missing on plain http.) */
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
