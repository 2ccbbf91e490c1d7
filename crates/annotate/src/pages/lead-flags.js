// What annotators ask about items, and what the lead says to it.

import { freshKey, request, serverNow } from "./api.js";
import { $, ago, el, matchChildren, setText } from "./dom.js";
import { act, announce } from "./lead-actions.js";
import { showHistory } from "./lead-answers.js";

/** Whether flags can still be resolved. */
let open = false;

/** Fetches and shows the flags of this round. */
export async function refreshFlags(round) {
  open = round?.state === "open";
  const { flags } = await request("GET", "/api/lead/flags");
  matchChildren($("flag-rows"), flags, { key: (flag) => flag.flag, create, update });
  $("flags").hidden = flags.length === 0;
  const waiting = flags.filter((flag) => flag.resolved === null).length;
  setText($("flags-count"), waiting === 0 ? "all resolved" : `${waiting} waiting`);
  $("flags-count").dataset.state = waiting === 0 ? "done" : "returned";
}

function create(flag) {
  return el(
    "li",
    { class: "given", "data-flag": flag.flag },
    flag.image
      ? el("img", { src: flag.image, alt: "", loading: "lazy" })
      : el("div", { class: "no-thumb", hidden: true }),
    el(
      "div",
      { class: "words" },
      ...flag.texts.map((text) => el("p", { class: "quiet", dir: "auto" }, text)),
      el("p", { class: "asked", dir: "auto" }, flag.note),
      el(
        "p",
        { class: "about" },
        el("strong", { dir: "auto" }, flag.person.name),
        el("time", { datetime: new Date(flag.at).toISOString() }),
        el("span", { class: "answered" }),
      ),
      el("p", { class: "note-shown quiet", dir: "auto" }),
    ),
    el(
      "div",
      { class: "row" },
      el(
        "button",
        { type: "button", class: "resolve", onclick: () => askResolve(flag) },
        "Resolve",
      ),
      el(
        "button",
        { type: "button", class: "quiet-button", onclick: () => showHistory(flag.item) },
        "History",
      ),
    ),
  );
}

function update(row, flag) {
  setText(row.querySelector("time"), ago(flag.at, serverNow()));
  setText(row.querySelector(".answered"), flag.answered ? "has answered it" : "");
  const { resolved } = flag;
  const reply = row.querySelector(".note-shown");
  const by = resolved?.by ? ` by ${resolved.by}` : "";
  const said = resolved?.note ? `: ${resolved.note}` : "";
  setText(reply, resolved === null ? "" : `Resolved${by}${said}`);
  reply.hidden = resolved === null;
  row.querySelector(".resolve").hidden = resolved !== null || !open;
}

let resolving = null;

function askResolve(flag) {
  resolving = { flag, key: freshKey() };
  setText($("resolve-name"), flag.person.name);
  setText($("resolve-asked"), flag.note);
  $("resolve-note").value = "";
  $("resolve-dialog").showModal();
  $("resolve-note").focus();
}

async function sendResolve(event, refresh) {
  event.preventDefault();
  const { flag, key } = resolving;
  const note = $("resolve-note").value.trim();
  $("resolve-dialog").close();
  const path = `/api/lead/flags/${flag.flag}/resolve`;
  if (await act(() => request("POST", path, { key, note }))) announce("Resolved.");
  refresh();
}

/** Wires the dialog. */
export function prepareFlags(refresh) {
  $("resolve-form").addEventListener("submit", (event) => sendResolve(event, refresh));
}
