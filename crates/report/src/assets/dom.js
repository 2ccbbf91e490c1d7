// Small tools for the other scripts of the page.

/** What people have chosen, by the id of the part: it outlives a refresh of the page. */
const chosen = new Map();

function choice(id, initial) {
  if (!chosen.has(id)) chosen.set(id, initial());
  return chosen.get(id);
}

/** Makes an element. Attributes that begin with "on" are listeners; text is never read as HTML. */
function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

function svgEl(tag, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Says something to screen readers. */
function announce(text) {
  let region = document.getElementById("announcer");
  if (!region) {
    region = el("div", { id: "announcer", class: "hidden", role: "status" });
    document.body.append(region);
  }
  region.textContent = text;
}

/** Shows a text for a moment on a button, and says it. */
function flash(button, text) {
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = text;
  announce(text);
  clearTimeout(button.timer);
  button.timer = setTimeout(() => (button.textContent = before), 1600);
}

async function copy(text, button, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened as files may not reach the clipboard: the old way needs a selection.
    const area = el("textarea", { class: "hidden", "aria-label": "Text to copy" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  flash(button, said);
}

/** The one tooltip of the page: lines of [class, name, value]. It stays inside the window. */
function showTip(title, lines, x, y) {
  let tip = document.getElementById("tip");
  if (!tip) {
    tip = el("div", { id: "tip", "aria-hidden": "true" });
    document.body.append(tip);
  }
  tip.replaceChildren(el("p", {}, title), ...lines);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8)) + scrollX}px`;
  tip.style.top = `${Math.max(8, Math.min(y - height / 2, innerHeight - height - 8)) + scrollY}px`;
}

function hideTip() {
  const tip = document.getElementById("tip");
  if (tip) tip.hidden = true;
}
