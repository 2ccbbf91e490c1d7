// Galleries of picks: batches, filters by score and anchor, ids to copy, pages.

const PAGE = 24;

function enhanceGallery(root) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const list = root.querySelector(".picks");
  if (data.groups.length === 0) return;
  const values = (name) => [...new Set(data.groups.map((group) => group[name]))];
  const begin = data.groups[data.first];
  const state = choice(root.id, () => ({
    strategy: begin.strategy, batch: begin.batch, seed: begin.seed, least: 0, anchor: "", page: 0,
  }));
  const id = (name) => `${root.id}-${name}`;

  function select(name, label) {
    const all = values(name);
    if (all.length < 2) return null;
    const control = el("select", { id: id(name), onchange: () => {
      state[name] = all[control.selectedIndex];
      state.page = 0;
      draw();
    } });
    control.append(...all.map((value) => el("option", { selected: value === state[name] }, String(value))));
    return el("label", {}, label, control);
  }

  const least = el("input", { id: id("least"), type: "range", min: 0, max: 1000, value: state.least * 1000,
    oninput: () => { state.least = least.value / 1000; state.page = 0; draw(); } });
  const leastSaid = el("output", { for: id("least") });
  const anchor = el("input", { id: id("anchor"), type: "search", placeholder: "words of a caption, or an id",
    oninput: () => { state.anchor = anchor.value; state.page = 0; draw(); } });
  anchor.value = state.anchor;
  const copyIds = el("button", { type: "button", id: id("copy"), onclick: () => {
    const ids = found().picks.map((pick) => data.items[pick[0]]);
    copy(ids.join("\n"), copyIds, `Copied ${ids.length} ids`);
  } }, "Copy ids");
  const hasReasons = data.groups.some((group) => group.picks.some((pick) => pick[3].length));
  const count = el("p", { class: "note count", role: "status" });
  const said = el("p", { class: "said-of" });
  const pages = el("div", { class: "pages", role: "group", "aria-label": "Pages of picks" });
  const controls = el("div", { class: "controls" },
    select("strategy", "Strategy"), select("batch", "Batch"), select("seed", "Seed"),
    el("label", { class: "least" }, el("span", {}, "Score at least ", leastSaid), least),
    el("label", { class: "by-anchor" }, hasReasons ? "Confused with" : "Near", anchor), copyIds);
  root.prepend(controls, said, count);
  list.after(pages);

  /** Returns the picks of the batch that pass the filters, with their ranks. */
  function found() {
    const same = (group) => ["strategy", "batch", "seed"].every((name) => group[name] === state[name]);
    const group = data.groups.find(same);
    if (!group) return { group: null, picks: [], cut: 0 };
    const scores = group.picks.map((pick) => pick[1]);
    const [low, high] = [Math.min(...scores), Math.max(...scores)];
    const cut = low + state.least * (high - low);
    const words = state.anchor.trim().toLowerCase();
    const named = (reason) => `${data.items[reason[0]]} ${data.texts[reason[1]] ?? ""}`.toLowerCase().includes(words);
    const own = (pick) => data.items[pick[0]].toLowerCase() === words;
    const like = (pick) => own(pick) || pick[3].some(named) || pick[6].some(named);
    const fits = (pick) => (state.least === 0 || pick[1] >= cut) && (!words || like(pick));
    const picks = [];
    group.picks.forEach((pick, at) => { if (fits(pick)) picks.push(Object.assign([...pick], { rank: at + 1 })); });
    return { group, picks, cut };
  }

  function frame(item) {
    const picture = data.pictures[item];
    if (!picture) return el("div", { class: "frame" }, "no picture on this page");
    return el("div", { class: "frame" },
      el("img", { alt: data.items[item], src: `data:image/jpeg;base64,${picture}`, decoding: "async" }));
  }

  function reasonOf([item, text, similarity, threshold], bars) {
    const at = (value) => `${Math.max(0, Math.min(100, (100 * (value - bars.low)) / bars.range)).toFixed(1)}%`;
    const number = (value) => value.toFixed(bars.digits);
    const bar = el("i");
    bar.style.width = at(similarity);
    const mark = el("b");
    mark.style.left = at(threshold);
    const filter = () => {
      anchor.value = state.anchor = data.texts[text];
      state.page = 0;
      draw();
      anchor.focus();
    };
    const caption = el("button", { type: "button", class: "said", title: "All picks confused with this", onclick: filter },
      data.texts[text]);
    return el("li", {}, data.pictures[item] ? frame(item) : null, el("div", {}, caption,
      el("div", { class: "bar" }, bar, mark),
      el("p", { class: "note" }, `${number(similarity)} against ${number(threshold)} (${similarity >= threshold ? "+" : "−"}${number(Math.abs(similarity - threshold))})`)));
  }

  /** The picture and the text of an item, or its name. */
  function shown([item, text]) {
    const name = text != null ? data.texts[text] : data.pictures[item] ? null : data.items[item];
    return [data.pictures[item] ? frame(item) : null, name == null ? null : el("p", { class: "said" }, name)];
  }

  function nearOf(near, learn) {
    const note = (words) => el("p", { class: "note" }, words);
    const paired = near.filter((one) => one[2]).map((one) =>
      el("div", { class: "near" }, note(one[3]), el("ul", { class: "reasons" }, el("li", {}, ...shown(one)))));
    const pool = near.filter((one) => !one[2]).map((one) => el("li", {}, ...shown(one), note(one[3])));
    return [...paired, pool.length ? el("div", { class: "near" }, note(learn), el("ul", { class: "learners" }, ...pool)) : null];
  }

  function card(pick, bars, learn) {
    const [item, score, hits, reasons, text, part, near] = pick;
    const pairs = hits === 0 ? "no pair: it fills the batch" : hits === 1 ? "1 pair" : `${hits} pairs`;
    const confused = hits == null ? "" : `, confused with ${pairs}`;
    return el("li", { class: "pick" },
      text == null ? frame(item) : el("blockquote", {}, data.texts[text]),
      el("p", { class: "name" }, el("span", { class: "rank" }, String(pick.rank)), ` ${data.items[item]}`),
      el("p", { class: "note" }, `score ${score.toFixed(3).replace("-", "−")}${confused}${part}`),
      reasons.length ? el("ul", { class: "reasons" }, ...reasons.map((reason) => reasonOf(reason, bars))) : null,
      ...nearOf(near, learn));
  }

  function draw() {
    const { group, picks, cut } = found();
    const last = Math.max(0, Math.ceil(picks.length / PAGE) - 1);
    state.page = Math.min(state.page, last);
    const shown = picks.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const bars = scaleOf(shown.flatMap((pick) => pick[3]));
    list.replaceChildren(...shown.map((pick) => card(pick, bars, group.learn)));
    list.start = shown[0]?.rank ?? 1;
    leastSaid.textContent = state.least === 0 ? "any" : cut.toFixed(3);
    said.textContent = group?.said ?? "";
    said.hidden = !group?.said;
    if (!group) count.textContent = "This batch has not been picked.";
    else {
      const listed = group.picks.length < group.total ? ` (the first ${group.picks.length} of ${group.total})` : "";
      const passing = picks.length < group.picks.length ? `${picks.length} of ` : "";
      count.textContent = `${passing}${group.picks.length} picks${listed}`;
    }
    const go = (page) => () => {
      state.page = page;
      draw();
      root.scrollIntoView({ block: "start" });
      pages.querySelector("button:not([disabled])")?.focus({ preventScroll: true });
    };
    pages.hidden = last === 0;
    pages.replaceChildren(
      el("button", { type: "button", id: id("before"), disabled: state.page === 0, onclick: go(state.page - 1) }, "Previous"),
      el("span", {}, `Page ${state.page + 1} of ${last + 1}`),
      el("button", { type: "button", id: id("after"), disabled: state.page === last, onclick: go(state.page + 1) }, "Next"),
    );
  }
  draw();
}

/** Returns a scale on which similarities differ visibly from their thresholds. */
function scaleOf(reasons) {
  if (reasons.length === 0) return { low: 0, range: 1, digits: 3 };
  const both = reasons.flatMap(([, , similarity, threshold]) => [similarity, threshold]);
  let low = Math.min(...both);
  const high = Math.max(...both);
  const surplus = Math.min(...reasons.map(([, , similarity, threshold]) => Math.abs(similarity - threshold)));
  const range = high - low;
  low = low > 0 && low < 2 * range ? 0 : low - range;
  const digits = Math.max(3, Math.min(6, Math.ceil(1 - Math.log10(Math.max(surplus, 1e-6)))));
  return { low, range: Math.max(high - low, 1e-12), digits };
}
