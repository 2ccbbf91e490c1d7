// How good the answers are: numbers about people, and answers that look odd.

import { request } from "./api.js";
import { $, el, matchChildren, setText } from "./dom.js";
import { act, announce } from "./lead-actions.js";
import { askReturn, showHistory, spoken } from "./lead-answers.js";

const KINDS = { fast: "too fast", copied: "copied", alike: "nearly the same", gold: "gold" };
/** Alerts that are shown at first. */
const FEW = 10;

let all = false;
let open = false;
let last = { alerts: [], total: 0 };

/** Fetches and shows how good the answers are. */
export async function refreshQuality(round) {
  open = round?.state === "open";
  const { alerts, total, people } = await request("GET", "/api/lead/quality");
  last = { alerts, total };
  matchChildren($("quality-rows"), people, { key: ({ person }) => person.id, create, update });
  showAlerts();
}

function create({ person }) {
  const cell = (name) => el("td", { class: "number", "data-cell": name });
  return el(
    "tr",
    { "data-person": person.id },
    el("th", { scope: "row" }, el("span", { class: "clip", dir: "auto" }, person.name)),
    ...["agreement", "gold", "reviewed", "corrected", "returned", "suggested", "alerts"].map(cell),
  );
}

const percent = (share) => `${Math.round(100 * share)} %`;

function update(row, numbers) {
  const set = (name, text) => setText(row.querySelector(`[data-cell=${name}]`), text);
  const of = (share, count) => (share === null ? "–" : `${percent(share)} of ${count}`);
  set("agreement", of(numbers.agreement, numbers.shared_items));
  set("gold", of(numbers.gold_score, numbers.gold_answers));
  for (const name of ["reviewed", "corrected", "returned"]) set(name, numbers[name]);
  const { suggestions_accepted: accepted, suggestions_edited: edited } = numbers;
  set("suggested", accepted + edited === 0 ? "–" : `${accepted} of ${accepted + edited}`);
  set("alerts", numbers.alerts);
  row.querySelector("[data-cell=alerts]").classList.toggle("warn", numbers.alerts > 0);
}

/** One entry for an answer, with all that is odd about it. */
function byAnswer(alerts) {
  const answers = new Map();
  for (const alert of alerts) {
    const known = answers.get(alert.answer);
    if (known) known.odd.push(alert);
    else answers.set(alert.answer, { ...alert, odd: [alert] });
  }
  return [...answers.values()];
}

function showAlerts() {
  const { total } = last;
  const alerts = byAnswer(last.alerts);
  const shown = all ? alerts : alerts.slice(0, FEW);
  matchChildren($("alert-rows"), shown, {
    key: ({ answer, odd }) => `${answer} ${odd.length}`,
    create: createAlert,
    update: (row) => (row.querySelector(".return").hidden = !open),
  });
  $("alerts-none").hidden = total > 0;
  $("alerts-more").hidden = shown.length === alerts.length;
  setText($("alerts-more"), `Show all ${alerts.length}`);
  setText($("alerts-count"), total === 0 ? "none" : String(total));
  $("alerts-count").dataset.state = total === 0 ? "done" : "returned";
}

function createAlert(alert) {
  const row = el(
    "li",
    { class: "given", "data-answer": alert.answer },
    alert.image
      ? el("img", { src: alert.image, alt: "", loading: "lazy" })
      : el("div", { class: "no-thumb", hidden: true }),
    el(
      "div",
      { class: "words" },
      ...alert.texts.map((text) => el("p", { class: "quiet", dir: "auto" }, text)),
      el("div", { class: "said" }, ...spoken(alert.said)),
      el(
        "p",
        { class: "about" },
        el("strong", { dir: "auto" }, alert.person.name),
        ...alert.odd.flatMap(({ kind, message }) => [
          el("span", { class: "badge", "data-state": "returned" }, KINDS[kind]),
          el("span", { dir: "auto" }, message),
        ]),
      ),
    ),
    el(
      "div",
      { class: "row" },
      el("button", { type: "button", class: "dismiss", onclick: () => dismiss(alert) }, "Dismiss"),
      el("button", { type: "button", class: "return", onclick: () => askReturn(alert) }, "Return"),
      el(
        "button",
        { type: "button", class: "quiet-button", onclick: () => showHistory(alert.item) },
        "History",
      ),
    ),
  );
  return row;
}

async function dismiss({ answer }) {
  if (!(await act(() => request("POST", `/api/answers/${answer}/dismiss`)))) return;
  const left = last.alerts.filter((alert) => alert.answer !== answer);
  last = { alerts: left, total: last.total - (last.alerts.length - left.length) };
  showAlerts();
  announce("Dismissed.");
}

/** Wires the list. */
export function prepareQuality() {
  $("alerts-more").addEventListener("click", () => {
    all = true;
    showAlerts();
  });
}
