// What could be better about captions while they are typed. The server is the only judge.

import { request } from "./api.js";
import { debounce, el } from "./dom.js";

const NAMES = {
  same: "Same",
  similar: "Similar",
  short: "Short",
  language: "Language",
  repeated: "Repeated",
};
/** Hints of these kinds ask for a second Enter. */
const SERIOUS = new Set(["same", "similar", "short", "language"]);
/** How long a submit waits for hints, in milliseconds. They are not worth more. */
const PATIENCE = 1500;

export class Hints {
  constructor(list) {
    this.list = list;
    this.checked = null;
    this.found = [];
    this.latest = null;
    this.later = debounce(500, (item, captions) => this.check(item, captions).catch(() => {}));
  }

  /** The captions changed: check them when typing stops. */
  schedule(item, captions) {
    if (captions.some((caption) => caption.trim() !== "")) this.later(item, captions);
    else this.clear();
  }

  /** Whether these captions deserve a second look; checks them now if that has not been done. */
  async serious(item, captions) {
    this.later.cancel();
    if (this.checked !== fingerprint(item, captions)) {
      const tooLong = new Promise((resolve) => setTimeout(resolve, PATIENCE));
      await Promise.race([this.check(item, captions).catch(() => {}), tooLong]);
    }
    const current = this.checked === fingerprint(item, captions);
    return current && this.found.some((hint) => SERIOUS.has(hint.kind));
  }

  clear() {
    this.later.cancel();
    this.latest?.abort();
    this.checked = null;
    this.show([], 0);
  }

  async check(item, captions) {
    this.latest?.abort();
    this.latest = new AbortController();
    const { signal } = this.latest;
    const { hints } = await request("POST", "/api/check", { item, captions }, { signal });
    if (signal.aborted) return;
    this.checked = fingerprint(item, captions);
    this.show(hints, captions.length);
  }

  show(hints, captions) {
    this.found = hints;
    const rows = hints.map((hint) => {
      const which =
        captions > 1 ? `${NAMES[hint.kind]}, caption ${hint.caption + 1}` : NAMES[hint.kind];
      const of = hint.of && !hint.message.includes(hint.of) ? hint.of : null;
      return el(
        "li",
        { "data-kind": hint.kind },
        el("span", { class: "mark", "aria-hidden": "true" }, "!"),
        el(
          "span",
          {},
          el("strong", {}, `${which}: `),
          el("span", { dir: "auto" }, hint.message),
          of && el("q", { dir: "auto" }, of),
        ),
      );
    });
    this.list.replaceChildren(...rows);
  }
}

const fingerprint = (item, captions) => JSON.stringify([item, captions]);
