// The guidelines on the lead's page: read, write, and see what annotators will see.

import { request } from "./api.js";
import { $, setText } from "./dom.js";
import { act, announce } from "./lead-actions.js";
import { markdown } from "./markdown.js";

let known = { version: 0, text: "" };

/** Fetches the guidelines, unless somebody is just changing them. */
export async function refreshGuidelines() {
  if (!$("guidelines-form").hidden) return;
  const fresh = await request("GET", "/api/guidelines");
  if (fresh.version === known.version && known.shown) return;
  known = { ...fresh, shown: true };
  show(known.text);
}

function show(text) {
  $("guidelines-shown").replaceChildren(...markdown(text));
  $("guidelines-shown").hidden = text === "";
  $("guidelines-none").hidden = text !== "";
  setText($("guidelines-edit"), text === "" ? "Write" : "Edit");
}

function edit(editing) {
  $("guidelines-form").hidden = !editing;
  $("guidelines-edit").hidden = editing;
  if (editing) {
    $("guidelines-source").value = known.text;
    $("guidelines-source").focus();
  } else {
    show(known.text);
    $("guidelines-edit").focus();
  }
}

async function save(event) {
  event.preventDefault();
  const text = $("guidelines-source").value.trim();
  const saved = await act(async () => {
    const body = { text, after: known.version };
    const { version } = await request("PUT", "/api/lead/guidelines", body);
    known = { version, text, shown: true };
  });
  if (!saved) return;
  edit(false);
  announce("Guidelines saved. Everybody sees them at their next task.");
}

/** Wires the editor. */
export function prepareGuidelines() {
  $("guidelines-edit").addEventListener("click", () => edit(true));
  $("guidelines-cancel").addEventListener("click", () => edit(false));
  $("guidelines-form").addEventListener("submit", save);
  $("guidelines-source").addEventListener("input", () => {
    show($("guidelines-source").value);
  });
}
