// "Why this image?": what the model would confuse it with, so that a person can tell them apart; or what the answer
// helps with, and what is most like it so far.

import { $, el, setText } from "./dom.js";
import { keep, recall } from "./storage.js";

const wide = window.matchMedia("(min-width: 900px)");

/** Makes the panel remember whether it is wanted open; it starts open where there is room. */
export function prepareWhy(pool) {
  const panel = $("why");
  panel.open = recall(["why"]) ?? wide.matches;
  // On a click, not on every toggle: the browser's first toggle is not a wish.
  panel.querySelector("summary").addEventListener("click", () => keep(["why"], !panel.open));
  if (pool === "text") {
    setText($("why-title"), "Why this text?");
    setText(
      $("why-text"),
      "The model would take this text for what these images show. Find the image that it really describes.",
    );
    setText($("near-pool-text"), "Your image helps with these texts too. They have none yet.");
    setText($("near-paired-text"), "Of the texts that have an image, this one is most like it.");
  }
}

/** Shows why a task was picked, or hides the panel where that is not known. */
export function showWhy({ why, near }, pool) {
  const known = why.length + near.length > 0;
  $("why").hidden = !known;
  $("why-none").hidden = known;
  $("why-confused").hidden = why.length === 0;
  $("why-list").replaceChildren(...why.map((reason) => row(reason, pool)));
  showNear($("near-pool"), near.filter((one) => !one.paired));
  showNear($("near-paired"), near.filter((one) => one.paired));
}

function showNear(section, some) {
  const shown = ({ image, text }) => (image ? el("img", { src: image, alt: "", loading: "lazy" }) : text);
  section.hidden = some.length === 0;
  section
    .querySelector("ul")
    .replaceChildren(...some.map((one) => el("li", { "data-item": one.item, dir: "auto" }, shown(one))));
}

function row(reason, pool) {
  const picture = () => el("img", { src: reason.image, alt: "", loading: "lazy" });
  const parts = [el("p", { class: "why-caption", dir: "auto" }, reason.caption), measure(reason)];
  if (reason.image && pool === "text") parts.unshift(picture());
  else if (reason.image) parts.push(folded(picture));
  return el("li", { "data-item": reason.item }, ...parts);
}

/** An image that is not even asked for before somebody wants to see it. */
function folded(picture) {
  const details = el("details", {}, el("summary", {}, "Show its image"));
  details.addEventListener("toggle", () => details.append(picture()), { once: true });
  return details;
}

function measure({ similarity, threshold }) {
  const bar = el("span", { class: "likeness", "aria-hidden": "true" });
  const fill = el("span", { class: "likeness-fill" });
  const tick = el("span", { class: "likeness-tick" });
  fill.style.inlineSize = percent(similarity);
  tick.style.insetInlineStart = percent(threshold);
  bar.append(fill, tick);
  const words = `similarity ${similarity.toFixed(2)}, others so far at most ${threshold.toFixed(2)}`;
  return el("p", { class: "measure" }, bar, el("span", {}, words));
}

const percent = (value) => `${100 * Math.min(1, Math.max(0, value))}%`;
