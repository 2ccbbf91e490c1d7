// The browser's own memory. It may be full, forbidden or cleared: then the page works without it.

const PREFIX = "nextpair:";

/** Keeps a value under a name; the parts of a name may be any strings. */
export function keep(name, value) {
  try {
    localStorage.setItem(join(name), JSON.stringify(value));
  } catch {
    // Without it only what the server has not confirmed yet is at risk, and only on a reload.
  }
}

/** A value that was kept, or null. */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(join(name)));
  } catch {
    return null;
  }
}

/** Drops a value. */
export function drop(name) {
  try {
    localStorage.removeItem(join(name));
  } catch {
    // Then there was nothing kept either.
  }
}

/** All values whose names begin with these parts. */
export function recallAll(start) {
  const values = [];
  try {
    const prefix = `${join(start)}/`;
    for (let index = 0; index < localStorage.length; index += 1) {
      const name = localStorage.key(index);
      if (name.startsWith(prefix)) values.push(JSON.parse(localStorage.getItem(name)));
    }
  } catch {
    // As if nothing had been kept.
  }
  return values.filter((value) => value !== null);
}

const join = (parts) =>
  PREFIX + parts.map((part) => encodeURIComponent(toWellFormed(part))).join("/");

// Half of a surrogate pair, legal in a JavaScript string, would make encodeURIComponent throw.
const toWellFormed = (part) => String(part).replace(/[\ud800-\udfff]/gu, "\ufffd");
