// The dialog that asks what the lead should know about an item.

import { $, setText } from "./dom.js";

/** Asks; answers with the note, or null when it was called off. */
export function askWhatToFlag(answered) {
  const dialog = $("flag-dialog");
  const note = $("flag-note");
  setText(
    $("flag-does"),
    answered
      ? "Your answer stays as it is."
      : "It is put aside until the lead has answered, and comes back to you then. What you typed is kept.",
  );
  note.value = "";
  setText($("flag-error"), "");
  dialog.showModal();
  note.focus();
  return new Promise((resolve) => {
    let said = null;
    const listening = new AbortController();
    const { signal } = listening;
    const send = (event) => {
      event.preventDefault();
      const text = note.value.trim();
      if (text === "") return setText($("flag-error"), "Write a word to the lead.");
      said = text;
      dialog.close();
    };
    $("flag-form").addEventListener("submit", send, { signal });
    note.addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        if (!event.repeat) send(event);
      },
      { signal },
    );
    dialog.addEventListener(
      "close",
      () => {
        listening.abort();
        resolve(said);
      },
      { signal },
    );
  });
}
