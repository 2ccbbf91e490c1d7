// The lead's guidelines on the caption page: shown once for every version, and on a key.

import { request } from "./api.js";
import { $ } from "./dom.js";
import { markdown } from "./markdown.js";

/** The version that this page has shown, whether or not the server knows of it. */
let shown = 0;

/** Shows the guidelines where somebody has not read them, unless this page has shown them. */
export async function showUnread({ guidelines }) {
  for (const id of ["guidelines-button", "guidelines-key", "guidelines-does"]) {
    $(id).hidden = guidelines === null;
  }
  if (guidelines?.unread && guidelines.version !== shown) await showGuidelines(guidelines);
}

/** Shows the guidelines, if there are any. */
export async function showGuidelines(guidelines) {
  if (guidelines === null || document.querySelector("dialog[open]")) return;
  const { version, text } = await request("GET", "/api/guidelines");
  if (text === "" || document.querySelector("dialog[open]")) return;
  shown = version;
  $("guidelines-text").replaceChildren(...markdown(text));
  $("guidelines-text").scrollTop = 0;
  $("guidelines-dialog").dataset.version = version;
  $("guidelines-dialog").showModal();
  $("guidelines-read").focus();
}

/** Wires the dialog; `onClose` gets the focus back to the work. */
export function prepareGuidelines(onError, onClose) {
  const dialog = $("guidelines-dialog");
  $("guidelines-read").addEventListener("click", () => {
    const version = Number(dialog.dataset.version);
    dialog.close();
    request("POST", "/api/guidelines/read", { version }).catch(onError);
  });
  dialog.addEventListener("close", onClose);
}
