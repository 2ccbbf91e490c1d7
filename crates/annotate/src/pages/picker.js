// Answering a text: the image that it describes, found by words, or uploaded.

import { Refused, explain, request } from "./api.js";
import { $, debounce, el, setText } from "./dom.js";

/** The longest search that the server takes. */
const LONGEST = 1000;

export class ImagePicker {
  /** `onInput` hears of every choice, `onSubmit(force)` of Enter on the chosen image. */
  constructor({ uploads, onInput, onSubmit }) {
    this.onInput = onInput;
    this.onSubmit = onSubmit;
    this.chosen = null;
    this.locked = false;
    this.found = [];
    this.search = $("search");
    this.grid = $("candidates");
    this.state = $("search-status");
    this.later = debounce(300, () => this.find());
    this.search.addEventListener("input", () => this.later());
    this.search.addEventListener("keydown", (event) => this.searchKey(event));
    this.grid.addEventListener("keydown", (event) => this.gridKey(event));
    if (uploads) this.acceptFiles();
  }

  get draft() {
    return { captions: [], image: this.chosen?.item ?? null };
  }

  get texts() {
    return [];
  }

  get said() {
    return this.chosen ? { image: this.chosen.item } : null;
  }

  get missing() {
    return this.chosen ? null : "Choose an image first, or skip.";
  }

  /** Starts a task: its own words are the first search. */
  fill(draft, task) {
    this.chosen = draft?.image
      ? { item: draft.image, image: imageOf(draft.image), caption: null }
      : null;
    this.found = [];
    this.search.value = (task?.texts[0] ?? "").slice(0, LONGEST);
    this.show();
    this.find();
  }

  /** Images are not suggested. */
  mark() {
    return false;
  }

  focus() {
    this.search.focus({ preventScroll: true });
    this.search.select();
  }

  lock(locked) {
    this.locked = locked;
    this.search.readOnly = locked;
    this.grid.toggleAttribute("inert", locked);
  }

  async find() {
    this.looking?.abort();
    this.looking = new AbortController();
    const { signal } = this.looking;
    setText(this.state, "Searching…");
    try {
      const words = encodeURIComponent(this.search.value);
      const { images } = await request("GET", `/api/search?q=${words}`, undefined, { signal });
      if (signal.aborted) return;
      this.found = images;
      setText(
        this.state,
        images.length === 0 ? "No image has these words in its captions or name. Try fewer or others." : "",
      );
      this.show();
    } catch (error) {
      if (!signal.aborted) setText(this.state, explain(error));
    }
  }

  /** The chosen image first, so that another search does not lose it out of sight. */
  show() {
    const others = this.found.filter((candidate) => candidate.item !== this.chosen?.item);
    const known = this.found.find((candidate) => candidate.item === this.chosen?.item);
    const all = this.chosen ? [known ?? this.chosen, ...others] : others;
    this.grid.replaceChildren(...all.map((candidate, index) => this.card(candidate, index === 0)));
  }

  card(candidate, first) {
    const chosen = candidate.item === this.chosen?.item;
    const name = candidate.caption ?? candidate.name ?? candidate.item;
    const card = el(
      "div",
      {
        class: "candidate",
        role: "radio",
        tabindex: first ? "0" : "-1",
        "aria-checked": String(chosen),
        "aria-label": name,
        "data-item": candidate.item,
      },
      el("img", { src: candidate.image, alt: "", loading: "lazy" }),
      el("span", { class: "candidate-name", dir: "auto" }, name),
      el("span", { class: "tick", "aria-hidden": "true" }, "✓"),
    );
    card.addEventListener("click", () => this.choose(candidate, card));
    return card;
  }

  choose(candidate, card) {
    if (this.locked) return;
    this.chosen = candidate;
    for (const other of this.grid.children) {
      other.setAttribute("aria-checked", String(other === card));
      other.tabIndex = other === card ? 0 : -1;
    }
    card.focus();
    this.onInput();
  }

  searchKey(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.onSubmit(true);
    else if (event.key === "Enter" || event.key === "ArrowDown")
      this.grid.firstElementChild?.focus();
    else return;
    event.preventDefault();
  }

  gridKey(event) {
    const cards = [...this.grid.children];
    const at = cards.indexOf(event.target.closest(".candidate"));
    if (at < 0 || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      const chosen = cards[at].getAttribute("aria-checked") === "true";
      if (event.ctrlKey || event.metaKey || (chosen && event.key === "Enter")) {
        if (!event.repeat) this.onSubmit(true);
      } else cards[at].click();
    } else {
      const columns = cards.findIndex((card) => card.offsetTop > cards[0].offsetTop);
      const row = columns < 0 ? cards.length : columns;
      const ahead = getComputedStyle(this.grid).direction === "rtl" ? -1 : 1;
      const steps = { ArrowRight: ahead, ArrowLeft: -ahead, ArrowDown: row, ArrowUp: -row };
      if (!(event.key in steps)) return;
      const to = at + steps[event.key];
      if (to < 0 && event.key === "ArrowUp") this.search.focus();
      else cards[Math.min(cards.length - 1, Math.max(0, to))].focus();
    }
    event.preventDefault();
  }

  acceptFiles() {
    const zone = $("picker");
    $("upload").hidden = false;
    $("upload-file").addEventListener("change", (event) => {
      this.upload(event.target.files[0]);
      event.target.value = "";
    });
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("dropping");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("dropping"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("dropping");
      this.upload(event.dataTransfer.files[0]);
    });
  }

  async upload(file) {
    if (!file || this.locked) return;
    setText(this.state, `Uploading ${file.name}…`);
    try {
      const { item, image } = await request("POST", "/api/uploads", file.slice());
      this.chosen = { item, image, caption: null, name: file.name };
      setText(this.state, "Uploaded and chosen.");
      this.show();
      this.grid.firstElementChild.focus();
      this.onInput();
    } catch (error) {
      const tooLarge = error instanceof Refused && error.status === 413;
      setText(this.state, tooLarge ? "That file is too large." : explain(error));
    }
  }
}

const imageOf = (item) => `/api/images/${encodeURIComponent(item)}`;
