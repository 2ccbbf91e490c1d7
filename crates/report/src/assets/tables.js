// Tables: sorted by a click on a column, and a cue where they are wider than the window.

/** Returns the number in a cell, or its text where there is none. */
function sortKey(cell) {
  const exact = cell?.querySelector("data");
  if (exact) return Number(exact.value);
  const text = (cell?.textContent ?? "").trim().replaceAll("−", "-").replaceAll(",", "");
  const number = text.match(/[-+]?\d+(\.\d+)?/);
  // A currency may stand before a number, a word may not.
  if (number && !/^[a-z]{4}/i.test(text)) return (text.startsWith("-") ? -1 : 1) * Math.abs(Number(number[0]));
  return text === "–" || text === "" ? null : text;
}

function compareKeys(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other));
}

/** Returns the lowest head of every column: heads may span rows and columns. */
function headsOf(table) {
  const heads = [];
  const rows = [...table.tHead.rows];
  const taken = rows.map(() => []);
  rows.forEach((row, y) => {
    let x = 0;
    for (const cell of row.cells) {
      while (taken[y][x]) x += 1;
      for (let dy = 0; dy < cell.rowSpan; dy += 1) {
        for (let dx = 0; dx < cell.colSpan; dx += 1) {
          if (taken[y + dy]) taken[y + dy][x + dx] = true;
          if (y + dy === rows.length - 1) heads[x + dx] = cell;
        }
      }
      x += cell.colSpan;
    }
  });
  return heads;
}

function enhanceTable(frame, place) {
  const table = frame.querySelector("table");
  if (!table?.tHead || table.tBodies[0].rows.length < 2) return cue(frame);
  const body = table.tBodies[0];
  const id = `table-${place}`;
  const state = choice(id, () => ({ column: null, down: true }));
  const heads = headsOf(table);
  const original = [...body.rows];

  function sort() {
    const { column, down } = state;
    const key = (row) => sortKey(row.cells[column]);
    const sorted = [...original];
    if (column !== null) {
      sorted.sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        // What is missing comes last, either way.
        if (a === null || b === null) return (a === null) - (b === null);
        return down ? compareKeys(b, a) : compareKeys(a, b);
      });
    }
    body.append(...sorted);
    heads.forEach((head, at) => {
      if (at === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  heads.forEach((head, column) => {
    if (!head || head.firstElementChild?.tagName === "BUTTON") return;
    const click = () => {
      // Down, up, and as it was.
      if (state.column !== column) Object.assign(state, { column, down: column > 0 });
      else if (state.down === column > 0) state.down = !state.down;
      else state.column = null;
      sort();
    };
    const button = el("button", { type: "button", class: "sort", id: `${id}-${column}`, onclick: click });
    button.append(...head.childNodes);
    head.append(button);
  });
  sort();
  cue(frame);
}

/** Tells that there are more columns, until they have been seen. */
function cue(frame) {
  const hint = el("p", { class: "more", "aria-hidden": "true" }, "More columns →");
  frame.after(hint);
  const look = () => {
    const wide = frame.scrollWidth > frame.clientWidth + 1;
    if (wide) frame.setAttribute("tabindex", "0");
    else frame.removeAttribute("tabindex");
    hint.hidden = !wide || frame.scrollLeft > 24;
  };
  new ResizeObserver(look).observe(frame);
  frame.addEventListener("scroll", look, { passive: true });
  look();
}
