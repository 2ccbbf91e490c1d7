// The dialog that asks why an item is skipped.

import { $, el, setText } from "./dom.js";

/** Puts the usual reasons into the dialog, each with its digit. */
export function prepareSkip(reasons) {
  const rows = reasons.map((reason, index) =>
    el(
      "label",
      { class: "reason" },
      el("input", { type: "radio", name: "reason", value: reason }),
      el("span", { dir: "auto" }, reason),
      index < 9 ? el("kbd", {}, String(index + 1)) : null,
    ),
  );
  $("skip-reasons").replaceChildren(...rows);
}

/** Asks; answers with the reason, or null when it was called off. */
export function askWhySkip() {
  const dialog = $("skip-dialog");
  const form = $("skip-form");
  const text = $("skip-text");
  const radios = [...form.querySelectorAll("input[type=radio]")];
  form.reset();
  setText($("skip-error"), "");
  dialog.showModal();
  (radios[0] ?? text).focus();

  return new Promise((resolve) => {
    let reason = null;
    const listening = new AbortController();
    const { signal } = listening;

    // One reason: typing takes the choice back, choosing empties the text.
    text.addEventListener("input", () => radios.forEach((radio) => (radio.checked = false)), {
      signal,
    });
    form.addEventListener("change", (event) => event.target.type === "radio" && (text.value = ""), {
      signal,
    });

    dialog.addEventListener(
      "keydown",
      (event) => {
        const radio = event.target === text ? null : radios[Number(event.key) - 1];
        if (
          radio &&
          /^[1-9]$/.test(event.key) &&
          !event.altKey &&
          !event.ctrlKey &&
          !event.metaKey
        ) {
          radio.checked = true;
          radio.focus();
          text.value = "";
          event.preventDefault();
        } else if (event.key === "Enter" && event.isComposing) event.stopPropagation();
      },
      { signal },
    );

    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        const chosen = radios.find((radio) => radio.checked)?.value ?? text.value.trim();
        if (chosen === "") {
          setText($("skip-error"), "Choose a reason or write one.");
          return;
        }
        reason = chosen;
        dialog.close();
      },
      { signal },
    );

    dialog.addEventListener(
      "close",
      () => {
        listening.abort();
        resolve(reason);
      },
      { signal },
    );
  });
}
