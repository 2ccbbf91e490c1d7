// Answering an image: one box for each caption that is wanted.

import { el } from "./dom.js";

/** The longest caption that the server takes. */
const LONGEST = 4000;

export class CaptionBoxes {
  /** `onInput` hears of every change, `onSubmit(force)` of Enter when all is said. */
  constructor(container, { count, language, onInput, onSubmit }) {
    this.onSubmit = onSubmit;
    this.boxes = Array.from({ length: count }, (_, index) => {
      const id = `caption-${index + 1}`;
      const box = el("textarea", {
        id,
        class: "caption",
        rows: count > 1 ? 2 : 3,
        maxlength: LONGEST,
        dir: "auto",
        autocomplete: "off",
        spellcheck: "true",
        enterkeyhint: index + 1 < count ? "next" : "send",
        "aria-describedby": "hints",
        oninput: onInput,
        onkeydown: (event) => this.key(event, index),
      });
      const name = index === 0 ? "Caption" : `Caption ${index + 1}`;
      const where =
        language && index === 0 ? el("span", { class: "quiet" }, ` in ${language}`) : null;
      container.append(el("div", { class: "field" }, el("label", { for: id }, name, where), box));
      return box;
    });
  }

  get draft() {
    return { captions: this.texts, image: null };
  }

  get texts() {
    return this.boxes.map((box) => box.value);
  }

  /** What would be submitted, or null when nothing was said. */
  get said() {
    const captions = this.texts.map((text) => text.trim()).filter((text) => text !== "");
    return captions.length > 0 ? { captions } : null;
  }

  /** What is still missing, in words, or null. */
  get missing() {
    const empty = this.boxes.findIndex((box) => box.value.trim() === "");
    if (empty < 0) return null;
    if (!this.said) return "Write a caption first, or skip.";
    return `Caption ${empty + 1} is still empty. Ctrl+Enter submits without it.`;
  }

  fill(draft) {
    this.boxes.forEach((box, index) => (box.value = draft?.captions?.[index] ?? ""));
  }

  /** Marks the boxes that hold a suggestion; true if there is one. */
  mark(suggestions) {
    const said = new Set(suggestions.map((text) => text.trim()));
    for (const box of this.boxes) {
      box.classList.toggle("suggested", said.has(box.value.trim()));
    }
    return this.boxes.some((box) => box.classList.contains("suggested"));
  }

  focus() {
    const empty = this.boxes.find((box) => box.value === "");
    (empty ?? this.boxes[0]).focus({ preventScroll: true });
  }

  /** Text stays readable and can be copied while it is on its way. */
  lock(locked) {
    for (const box of this.boxes) box.readOnly = locked;
  }

  key(event, index) {
    // Enter also ends the composition of a Chinese or Japanese word; that is not a submit. Safari
    // says so only by the old key code.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229)
      return;
    event.preventDefault();
    if (event.repeat) return;
    const all = event.ctrlKey || event.metaKey;
    const next = this.boxes.find((box, at) => at !== index && box.value.trim() === "");
    if (next && !all) next.focus();
    else this.onSubmit(all);
  }
}
