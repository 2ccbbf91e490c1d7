// Elements, text and times. Everything that comes from the server goes in as text, never as markup.

export const $ = (id) => document.getElementById(id);

/** An element with attributes (`on...` are listeners; null and false are left out) and children. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets text only when it differs: selections stay, and live regions do not repeat themselves. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

/**
 * Makes the children of a container match `items`, in place. An element whose key is still there is
 * updated, never rebuilt or moved without need, so that focus and half-typed text survive; one for
 * which `pinned` holds stays although its item is gone.
 */
export function matchChildren(container, items, { key, create, update, pinned = () => false }) {
  const before = new Map([...container.children].map((child) => [child.dataset.key, child]));
  const wanted = new Set(items.map((item) => String(key(item))));
  for (const [name, child] of before) {
    if (!wanted.has(name) && !pinned(child)) child.remove();
  }
  let cursor = container.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = before.get(name);
    if (!child) {
      child = create(item);
      child.dataset.key = name;
    }
    update(child, item);
    while (cursor && cursor !== child && !wanted.has(cursor.dataset.key)) {
      cursor = cursor.nextElementSibling;
    }
    if (child === cursor) cursor = cursor.nextElementSibling;
    else container.insertBefore(child, cursor);
  }
}

/** Calls `action` once the calls have stopped for a while; `cancel` forgets a waiting one. */
export function debounce(milliseconds, action) {
  let timer;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** "12 s ago", from two times in milliseconds. */
export function ago(then, now) {
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(then).toLocaleDateString();
}

/** A length of time in words, as rough as it is uncertain: "about 25 minutes". */
export function inWords(seconds) {
  if (seconds < 60) return "less than a minute";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `about ${plural(minutes, "minute")}`;
  const hours = Math.round(seconds / 3600);
  if (hours < 36) return `about ${plural(hours, "hour")}`;
  return `about ${plural(Math.round(seconds / 86400), "day")}`;
}

/** "8.4 s" or "1:05 min". */
export function exactly(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${clock(seconds)} min`;
}

/** "0:42". */
export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** "1 image", "2 images". */
export function plural(count, noun) {
  return `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
}

/** Copies text; false where the browser does not allow it, as on plain http. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
