// Who works on it: counts, links, invitations.

import { request, serverNow } from "./api.js";
import { $, ago, el, exactly, matchChildren, setText } from "./dom.js";
import { act, announce, confirmed, showLink } from "./lead-actions.js";

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
        button("New link", "add-link", () => addLink(person, refresh)),
        person.id === me.id
          ? null
          : button("Remove", "quiet-button danger", () => remove(person, refresh)),
      ),
      el("ul", { class: "links quiet" }),
    ),
  );
  tr.refresh = refresh;
  return tr;
}

function update(tr, row) {
  const set = (name, text) => setText(tr.querySelector(`[data-cell=${name}]`), text);
  for (const name of NUMBERS) set(name, row[name].toLocaleString());
  set("median", row.median_seconds === null ? "–" : exactly(row.median_seconds));
  set("holds", row.holds ?? "");
  set("seen", row.last_seen === null ? "never" : ago(row.last_seen, serverNow()));
  matchChildren(tr.querySelector(".links"), row.links, {
    key: (link) => link.number,
    create: (link) => createLink(link, row.person, tr.refresh),
    update: () => {},
  });
}

/** A link that works: what signs in is shown only to whoever makes it, once. */
function createLink({ number, until }, person, refresh) {
  const name = `Link ${number + 1}`;
  const revoke = { type: "button", class: "quiet-button", "aria-label": `Revoke ${name}` };
  revoke.onclick = () => revokeLink(person, number, refresh);
  const date = new Date(until).toLocaleDateString();
  return el("li", { class: "row" }, `${name}, until ${date}`, el("button", revoke, "Revoke"));
}

async function addLink(person, refresh) {
  await act(async () => {
    const { link } = await request("POST", `/api/lead/people/${person.id}/links`);
    showLink(person.name, link);
  });
  refresh();
}

async function revokeLink(person, number, refresh) {
  const text = "It stops working, and everything signed in with it is signed out.";
  if (!(await confirmed(`Revoke link ${number + 1} of ${person.name}?`, text, "Revoke"))) return;
  const path = `/api/lead/people/${person.id}/links/${number}`;
  if (await act(() => request("DELETE", path))) announce("Link revoked.");
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
