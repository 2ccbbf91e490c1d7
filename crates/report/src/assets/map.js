// The map of the pool: a picture under the pointer, and a lasso that makes a list.

/** How near a point must be to be meant, in units of the drawing. */
const NEAR = 9;

function enhanceMap(figure) {
  const source = figure.querySelector("script");
  const svg = figure.querySelector("svg.chart");
  if (!source || !svg) return;
  const data = JSON.parse(source.textContent);
  const panels = [...svg.querySelectorAll(".panel")];
  const state = choice(figure.id, () => ({ listed: [], ids: [] }));
  // The map may have been made anew: items keep their ids, not their places.
  const placeOf = new Map(data.ids.map((id, at) => [id, at]));
  state.listed = state.ids.map((id) => placeOf.get(id)).filter((at) => at !== undefined);
  const missing = new Set(data.tiles?.missing ?? []);
  const pickedBy = data.ids.map(() => []);
  for (const panel of data.panels) for (const at of panel.picks) pickedBy[at]?.push(panel.name);
  let sheet = null;

  const rings = panels.map((panel) => {
    const ring = svgEl("circle", { class: "ring", r: 6, visibility: "hidden" });
    const marks = svgEl("path", { class: "listed" });
    const lasso = svgEl("path", { class: "lasso" });
    panel.append(marks, lasso, ring);
    return { ring, marks, lasso };
  });
  svg.id = `${figure.id}-drawing`;
  svg.setAttribute("tabindex", "0");

  /** A picture of a point, or its text. The image of all pictures is decoded when the first one is shown. */
  function tile(at) {
    if (data.texts) return el("span", { class: "tile-text" }, data.texts[at]);
    if (!data.tiles || missing.has(at)) return null;
    sheet ??= `url(data:image/jpeg;base64,${data.tiles.image})`;
    const { columns, width, height } = data.tiles;
    const shown = el("span", { class: "tile", role: "img", "aria-label": data.ids[at] });
    Object.assign(shown.style, {
      width: `${width}px`, height: `${height}px`, backgroundImage: sheet,
      backgroundPosition: `-${(at % columns) * width}px -${Math.floor(at / columns) * height}px`,
    });
    return shown;
  }

  function describe(at) {
    return pickedBy[at].length ? `picked by ${pickedBy[at].join(", ")}` : "not picked";
  }

  function point(at) {
    for (const { ring } of rings) {
      ring.setAttribute("visibility", at === null ? "hidden" : "visible");
      if (at === null) continue;
      ring.setAttribute("cx", data.places[at][0]);
      ring.setAttribute("cy", data.places[at][1]);
    }
  }

  function show(at, x, y) {
    point(at);
    const picture = tile(at);
    showTip(data.ids[at], [picture, el("div", {}, describe(at))].filter(Boolean), x, y);
  }

  function within(panel, event) {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(panel.getScreenCTM().inverse());
    return [place.x, place.y];
  }

  function nearest([x, y], most = NEAR) {
    let best = null;
    let distance = most * most;
    data.places.forEach(([px, py], at) => {
      const apart = (px - x) ** 2 + (py - y) ** 2;
      if (apart < distance) [best, distance] = [at, apart];
    });
    return best;
  }

  // The list under the map.
  const count = el("p", { class: "note", role: "status" });
  const copyIds = el("button", { type: "button", id: `${figure.id}-copy`, onclick: () =>
    copy(state.listed.map((at) => data.ids[at]).join("\n"), copyIds, `Copied ${state.listed.length} ids`) }, "Copy ids");
  const clear = el("button", { type: "button", id: `${figure.id}-clear`, onclick: () => { state.listed = []; draw(); svg.focus(); } }, "Clear");
  const tiles = el("ul", { class: "tiles", tabindex: "0", "aria-label": "Listed items" });
  const list = el("div", { class: "lassoed" }, el("div", { class: "controls" }, count, copyIds, clear), tiles);
  figure.append(
    el("p", { class: "note how" }, "Point at an item to see it; draw around items to list them. With keys: arrows move, space takes or leaves an item."),
    list,
  );

  function draw() {
    state.ids = state.listed.map((at) => data.ids[at]);
    list.hidden = state.listed.length === 0;
    count.textContent = `${state.listed.length} ${state.listed.length === 1 ? "item" : "items"} listed`;
    const dots = state.listed.map((at) => `M${data.places[at].join(" ")}h.01`).join("");
    for (const { marks } of rings) marks.setAttribute("d", dots);
    tiles.replaceChildren(...state.listed.slice(0, 200).map((at) =>
      el("li", {}, tile(at), el("span", { class: "name" }, data.ids[at]), el("span", { class: "note" }, describe(at)))));
  }

  panels.forEach((panel, number) => {
    const { lasso } = rings[number];
    let path = null;
    panel.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" && !event.isPrimary) return;
      path = [within(panel, event)];
      panel.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    panel.addEventListener("pointermove", (event) => {
      const place = within(panel, event);
      if (path) {
        path.push(place);
        for (const { lasso: drawn } of rings) drawn.setAttribute("d", `M${path.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}Z`);
        hideTip();
        return;
      }
      const at = nearest(place);
      if (at === null) { point(null); hideTip(); } else show(at, event.clientX, event.clientY);
    });
    panel.addEventListener("pointerup", (event) => {
      if (!path) return;
      const drawn = path;
      path = null;
      for (const { lasso: other } of rings) other.removeAttribute("d");
      if (drawn.length < 4) {
        const at = nearest(drawn[0]);
        if (at !== null) toggle(at);
        return;
      }
      state.listed = [...data.places.keys()].filter((at) => inside(data.places[at], drawn));
      draw();
    });
    panel.addEventListener("pointercancel", () => { path = null; lasso.removeAttribute("d"); });
    panel.addEventListener("pointerleave", () => { if (!path) { point(null); hideTip(); } });
  });

  function toggle(at) {
    state.listed = state.listed.includes(at) ? state.listed.filter((other) => other !== at) : [...state.listed, at];
    draw();
  }

  let at = null;
  svg.addEventListener("blur", () => { point(null); hideTip(); });
  svg.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) {
      event.preventDefault();
      at = at === null ? nearest([106, 106], Infinity) : neighbour(at, way) ?? at;
      const box = rings[0].ring.getBoundingClientRect();
      show(at, box.right, box.top);
      announce(`${data.ids[at]}, ${describe(at)}`);
    } else if ((event.key === " " || event.key === "Enter") && at !== null) {
      event.preventDefault();
      toggle(at);
    } else if (event.key === "Escape") { point(null); hideTip(); }
  });

  /** The nearest point in a direction. Those off to the side count as farther away. */
  function neighbour(from, [dx, dy]) {
    const [x, y] = data.places[from];
    let best = null;
    let least = Infinity;
    data.places.forEach(([px, py], other) => {
      const along = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (along > 0.05 && along + 2 * aside < least) [best, least] = [other, along + 2 * aside];
    });
    return best;
  }
  draw();
}

/** Whether a place is inside a polygon: a ray crosses its edge an odd number of times. */
function inside([x, y], polygon) {
  let odd = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i, i += 1) {
    const [[xi, yi], [xj, yj]] = [polygon[i], polygon[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}
