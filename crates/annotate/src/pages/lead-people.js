// Who works on it: counts, links, invitations.

import { request, serverNow } from "./api.js";
import { $, ago, copyText, el, exactly, matchChildren, setText } from "./dom.js";
import { act, announce, confirmed, showLink } from "./lead-desk.js";

/** Shows everybody, and offers them as a filter for the answers. */
export function showPeople(people, me, refresh) {
  matchChildren($("people-rows"), people, {
    key: ({ person }) => person.id,
    create: (row) => create(row, me, refresh),
    update,
  });
  matchChildren($("answers-person"), [{ person: { id: "", name: "everybody" } }, ...people], {
    key: ({ person }) => person.id,
    create: ({ person }) => el("option", { value: person.id }),
    update: (option, { person }) => setText(option, person.name.slice(0, 40)),
  });
}

const NUMBERS = ["answered", "skipped", "returned", "captions"];

function create(row, me, refresh) {
  const { person } = row;
  const cell = (name, kind = "") => el("td", { class: kind, "data-cell": name });
  const button = (text, kind, action) =>
    el("button", { type: "button", class: kind, onclick: action }, text);
  const tr = el(
    "tr",
    { "data-person": person.id },
    el(
      "th",
      { scope: "row" },
      el("span", { class: "clip", dir: "auto", title: person.name }, person.name),
      el("span", { class: "quiet" }, person.role),
    ),
    ...NUMBERS.map((name) => cell(name, "number")),
    cell("median", "number"),
    el("td", {}, el("span", { class: "clip", "data-cell": "holds", dir: "auto" })),
    cell("seen"),
    el(
      "td",
      {},
      el(
        "div",
        { class: "row" },
        button("Copy link", "copy", () => copy(tr)),
        button("New link", "quiet-button renew", () => renew(tr, person, refresh)),
        person.id === me.id
          ? null
          : button("Remove", "quiet-button danger", () => remove(person, refresh)),
      ),
    ),
  );
  return tr;
}

function update(tr, row) {
  const set = (name, text) => setText(tr.querySelector(`[data-cell=${name}]`), text);
  for (const name of NUMBERS) set(name, row[name].toLocaleString());
  set("median", row.median_seconds === null ? "–" : exactly(row.median_seconds));
  set("holds", row.holds ?? "");
  set("seen", row.last_seen === null ? "never" : ago(row.last_seen, serverNow()));
  tr.link = row.link;
  tr.personName = row.person.name;
}

async function copy(tr) {
  if (!(await copyText(tr.link))) return showLink(tr.personName, tr.link);
  const button = tr.querySelector(".copy");
  setText(button, "Copied");
  announce("Link copied.");
  setTimeout(() => setText(button, "Copy link"), 2000);
}

async function renew(tr, person, refresh) {
  const text = "The old link stops working, and everything signed in with it is signed out.";
  if (!(await confirmed(`A new link for ${person.name}?`, text, "New link"))) return;
  await act(async () => {
    const { link } = await request("POST", `/api/lead/people/${person.id}/link`);
    tr.link = link;
    showLink(person.name, link);
  });
  refresh();
}

async function remove(person, refresh) {
  const text = "They are signed out for good and their link stops working. What they said stays.";
  if (!(await confirmed(`Remove ${person.name}?`, text, "Remove"))) return;
  await act(() => request("DELETE", `/api/lead/people/${person.id}`));
  refresh();
}

/** Wires the form of invitations. */
export function preparePeople(refresh) {
  $("invite").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = $("invite-name").value.trim();
    if (name === "") return $("invite-name").focus();
    await act(async () => {
      const invited = await request("POST", "/api/lead/people", {
        name,
        role: $("invite-role").value,
      });
      $("invite").reset();
      showLink(invited.person.name, invited.link);
    });
    refresh();
  });
}
