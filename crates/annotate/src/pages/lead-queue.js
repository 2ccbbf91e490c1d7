// The queue, by score.

import { request } from "./api.js";
import { $, el, matchChildren, setText } from "./dom.js";
import { act } from "./lead-actions.js";
import { showHistory } from "./lead-answers.js";

const PAGE = 20;
const STATES = { open: "open", held: "in hand", done: "done", skipped: "skipped" };

let offset = 0;

/** Fetches and shows the page of the queue that is looked at. */
export async function refreshQueue() {
  const state = $("queue-state").value;
  const only = state === "" ? "" : `&state=${state}`;
  const from = offset;
  const { total, tasks } = await request(
    "GET",
    `/api/lead/queue?offset=${from}&limit=${PAGE}${only}`,
  );
  if (from !== offset || state !== $("queue-state").value) return;
  // Tasks leave a filtered list while people work: do not stay behind its end.
  if (tasks.length === 0 && offset > 0) {
    offset = Math.max(0, Math.floor((total - 1) / PAGE) * PAGE);
    return refreshQueue();
  }
  matchChildren($("queue-rows"), tasks, { key: (task) => task.item, create, update });
  const range = `${(offset + 1).toLocaleString()} to ${(offset + tasks.length).toLocaleString()}`;
  setText(
    $("queue-range"),
    total === 0 ? "Nothing here." : `${range} of ${total.toLocaleString()}`,
  );
  $("queue-back").disabled = offset === 0;
  $("queue-on").disabled = offset + tasks.length >= total;
}

function create(task) {
  const number = (name) => el("td", { class: "number", "data-cell": name });
  const name = task.texts.length > 0 ? task.texts.join(" / ") : task.item;
  return el(
    "tr",
    { "data-item": task.item },
    number("rank"),
    el(
      "td",
      {},
      task.image ? el("img", { class: "thumb", src: task.image, alt: "", loading: "lazy" }) : "",
    ),
    el("td", {}, el("span", { class: "clip", dir: "auto", title: name }, name)),
    number("score"),
    number("hits"),
    el("td", {}, el("span", { class: "badge" }), task.gold ? el("span", { class: "badge gold" }, "gold") : null),
    el("td", {}, el("span", { class: "clip", "data-cell": "holder", dir: "auto" })),
    el(
      "td",
      {},
      el(
        "button",
        { type: "button", class: "quiet-button", onclick: () => showHistory(task.item) },
        "History",
      ),
    ),
  );
}

function update(row, task) {
  const set = (name, text) => setText(row.querySelector(`[data-cell=${name}]`), text);
  set("rank", task.rank.toLocaleString());
  set("score", task.score.toFixed(3));
  set("hits", task.hits === null ? "–" : task.hits.toLocaleString());
  set("holder", task.holder ?? "");
  const badge = row.querySelector(".badge");
  setText(badge, STATES[task.state]);
  badge.dataset.state = task.state;
}

/** Wires filter and paging. */
export function prepareQueue() {
  const turn = (to) => {
    offset = Math.max(0, to);
    act(refreshQueue);
  };
  $("queue-state").addEventListener("change", () => turn(0));
  $("queue-back").addEventListener("click", () => turn(offset - PAGE));
  $("queue-on").addEventListener("click", () => turn(offset + PAGE));
}
