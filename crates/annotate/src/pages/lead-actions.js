// Shared by the parts of the lead's page: acting, asking first, and telling of failures.

import { Refused, explain } from "./api.js";
import { $, copyText, setText } from "./dom.js";

/** Does something for the lead and says so if it fails. True when it worked. */
export async function act(action) {
  $("error").hidden = true;
  try {
    await action();
    return true;
  } catch (error) {
    if (!(error instanceof Refused)) console.error(error);
    setText($("error"), explain(error));
    $("error").hidden = false;
    return false;
  }
}

/** Asks before something that cannot be taken back. */
export function confirmed(title, text, yes) {
  const dialog = $("confirm-dialog");
  setText($("confirm-title"), title);
  setText($("confirm-text"), text);
  setText($("confirm-yes"), yes);
  dialog.returnValue = "";
  $("confirm-yes").onclick = () => dialog.close("yes");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Shows somebody's link, ready to be copied. */
export function showLink(name, link) {
  setText($("link-title"), `Link for ${name}`);
  setText($("link-copy"), "Copy");
  $("link").value = link;
  $("link-dialog").showModal();
  $("link").select();
}

/** Says something to those who do not see the page. */
export function announce(text) {
  setText($("announce"), text);
}

/** Wires the dialogs' own buttons. */
export function prepareDialogs() {
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  $("link-copy").addEventListener("click", async () => {
    const copied = await copyText($("link").value);
    setText($("link-copy"), copied ? "Copied" : "Press Ctrl+C");
    if (!copied) $("link").select();
  });
}
