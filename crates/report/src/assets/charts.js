// Charts: values under the pointer or by arrow keys, series on and off, bands of what is focused.

function enhanceChart(figure) {
  const svg = figure.querySelector("svg.chart:not(.swatch)");
  if (!svg) return;
  svg.id = `${figure.id}-drawing`;
  // The page shows what titles would show, sooner and for all series.
  svg.querySelectorAll("[data-v] > title, [data-tip] > title").forEach((title) => title.remove());
  svg.setAttribute("tabindex", "0");
  if (svg.querySelector(".drawn")) enhanceLines(figure, svg);
  else enhanceDots(svg);
}

function enhanceLines(figure, svg) {
  const state = choice(figure.id, () => ({ off: new Set(), focus: null }));
  const legend = figure.querySelector(".legend");
  const groups = [...svg.querySelectorAll(".drawn")];
  const series = groups.map((group) => {
    const at = group.dataset.series;
    const key = legend.querySelector(`[data-series="${at}"]`);
    const points = [...group.querySelectorAll(".marker")].map((marker) => {
      const [x, y] = marker.dataset.at.split(" ").map(Number);
      return { x, y, label: marker.dataset.x, value: marker.dataset.v };
    });
    const band = svg.querySelector(`.bands[data-series="${at}"]`);
    return { at, name: key.textContent, key, group, band, points };
  });
  const guide = svgEl("line", { class: "guide", y1: 8, y2: 228, visibility: "hidden" });
  svg.insertBefore(guide, groups[0]);

  function draw(hover = null) {
    const focus = hover ?? state.focus;
    for (const one of series) {
      const off = state.off.has(one.name);
      one.group.classList.toggle("off", off);
      one.group.classList.toggle("faint", focus !== null && focus !== one.name);
      one.band?.classList.toggle("quiet", off || focus !== one.name);
      const button = one.key.firstChild;
      button.setAttribute("aria-pressed", String(!off));
    }
  }

  for (const one of series) {
    const button = el(
      "button",
      {
        type: "button",
        id: `${figure.id}-${one.at}`,
        onclick: () => {
          if (state.off.has(one.name)) state.off.delete(one.name);
          else state.off.add(one.name);
          draw(one.name);
        },
        onpointerenter: () => draw(one.name),
        onpointerleave: () => draw(),
        onfocus: () => draw(one.name),
        onblur: () => draw(),
      },
      ...one.key.childNodes,
    );
    one.key.replaceChildren(button);
    one.group.addEventListener("pointerenter", () => draw(one.name));
    one.group.addEventListener("pointerleave", () => draw());
  }

  // A place on the horizontal axis, with the values of all series that are on.
  const places = [...new Set(series.flatMap((one) => one.points.map((point) => point.x)))];
  places.sort((one, other) => one - other);
  let at = places.length - 1;
  function show(place, far) {
    at = place;
    const x = places[place];
    guide.setAttribute("x1", x);
    guide.setAttribute("x2", x);
    guide.setAttribute("visibility", "visible");
    const found = [];
    for (const one of series) {
      const point = one.points.find((candidate) => candidate.x === x);
      if (point && !state.off.has(one.name)) found.push([one, point]);
    }
    found.sort((one, other) => one[1].y - other[1].y);
    const title = `${found[0]?.[1].label ?? ""} ${svg.dataset.x ?? "items"}`;
    const lines = found.map(([one, point]) => {
      const swatch = one.key.querySelector("svg").cloneNode(true);
      return el("div", {}, swatch, el("span", {}, one.name), el("b", {}, point.value));
    });
    const box = svg.getBoundingClientRect();
    const left = box.left + (x / svg.viewBox.baseVal.width) * box.width;
    showTip(title, lines, left, far ?? box.top + box.height / 2);
    return `${title}: ${found.map(([one, point]) => `${one.name} ${point.value}`).join("; ")}`;
  }
  function hide() {
    guide.setAttribute("visibility", "hidden");
    hideTip();
  }
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const distance = (place) => Math.abs(places[place] - x);
    let nearest = 0;
    for (const place of places.keys()) if (distance(place) < distance(nearest)) nearest = place;
    show(nearest, event.clientY);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -places.length, End: places.length }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    announce(show(Math.max(0, Math.min(places.length - 1, at + step))));
  });
  draw();
}

function enhanceDots(svg) {
  const dots = [...svg.querySelectorAll("[data-tip]")];
  let at = -1;
  const show = (dot) => {
    const box = dot.getBoundingClientRect();
    showTip(dot.dataset.tip, [], box.right, box.top + box.height / 2);
  };
  for (const dot of dots) {
    dot.addEventListener("pointerenter", () => show(dot));
    dot.addEventListener("pointerleave", hideTip);
  }
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (event.key === "Escape") hideTip();
    if (!step || dots.length === 0) return;
    event.preventDefault();
    at = (at + step + dots.length) % dots.length;
    show(dots[at]);
    announce(dots[at].dataset.tip);
  });
}
