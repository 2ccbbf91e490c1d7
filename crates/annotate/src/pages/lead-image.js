// Another image for a text, chosen by a lead.

import { freshKey, request } from "./api.js";
import { $, el } from "./dom.js";
import { act, announce } from "./lead-actions.js";
import { ImagePicker } from "./picker.js";

let picker = null;
let editing = null;

/** Opens the choice with the image that was chosen. */
export function editImage(answer) {
  // One key for this edit: pressing Save twice, or again after an error, is one act.
  editing = { answer, key: freshKey() };
  const quotes = answer.texts.map((text) => el("blockquote", { dir: "auto" }, text));
  $("image-texts").replaceChildren(...quotes);
  $("image-dialog").showModal();
  picker.fill({ image: answer.said.image ?? null }, answer);
  picker.focus();
}

async function save(refresh) {
  const { said } = picker;
  if (!said) return picker.focus();
  const { answer, key } = editing;
  if (said.image !== answer.said.image) {
    const path = `/api/answers/${answer.answer}/revise`;
    if (!(await act(() => request("POST", path, { key, said })))) return;
    announce("Saved.");
  }
  $("image-dialog").close();
  await act(refresh);
}

/** Wires the dialog, for pools of texts. */
export function prepareImages(uploads, refresh) {
  const onSubmit = () => save(refresh);
  picker = new ImagePicker({ uploads, onInput: () => {}, onSubmit });
  $("image-save").addEventListener("click", onSubmit);
}
