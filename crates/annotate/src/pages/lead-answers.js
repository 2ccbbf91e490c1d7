// What people said, the newest first: look, edit, return.

import { freshKey, request, serverNow } from "./api.js";
import { $, ago, el, exactly, matchChildren, setText } from "./dom.js";
import { act, announce } from "./lead-actions.js";
import { editImage, prepareImages } from "./lead-image.js";

/** Answers that are fetched at a time, and the most that are kept up to date. */
const PAGE = 25;
const MOST = 200;

const REVIEW = { waiting: "waits for review", accepted: "accepted", corrected: "corrected" };
const PROVENANCE = { accepted: "suggestion accepted", edited: "suggestion edited" };

let wanted = PAGE;
let pool = "image";
/** The number of the round that is open: answers of others cannot be changed. */
let open = null;

export function setOpenRound(round) {
  open = round?.state === "open" ? round.number : null;
}

/** Fetches and shows the newest answers, as many as were asked for so far. */
export async function refreshAnswers() {
  const person = $("answers-person").value;
  const limit = Math.min(wanted, MOST);
  const of = person === "" ? "" : `&person=${person}`;
  const { answers } = await request("GET", `/api/lead/answers?limit=${limit}${of}`);
  // Beyond what one request brings: page on from the oldest.
  while (answers.length > 0 && answers.length % MOST === 0 && answers.length < wanted) {
    const before = answers.at(-1).answer;
    const page = await request("GET", `/api/lead/answers?limit=${MOST}${of}&before=${before}`);
    if (page.answers.length === 0) break;
    answers.push(...page.answers);
  }
  if (person !== $("answers-person").value) return;
  matchChildren($("answer-rows"), answers, {
    key: (answer) => answer.answer,
    create,
    update,
    pinned: (row) => row.querySelector(".editor") !== null,
  });
  $("answers-none").hidden = answers.length > 0;
  $("answers-older").hidden = answers.length < wanted;
}

function create(answer) {
  const row = el(
    "li",
    { class: "given", "data-answer": answer.answer },
    answer.image
      ? el("img", { src: answer.image, alt: "", loading: "lazy" })
      : el("div", { class: "no-thumb", hidden: true }),
    el(
      "div",
      { class: "words" },
      ...answer.texts.map((text) => el("p", { class: "quiet", dir: "auto" }, text)),
      el("div", { class: "said" }),
      el(
        "p",
        { class: "about" },
        el("span", { class: "badge" }),
        el("span", { class: "badge review" }),
        el("strong", { dir: "auto" }, answer.person.name),
        el("time", { datetime: new Date(answer.at).toISOString() }),
        el(
          "span",
          { class: "seconds" },
          answer.seconds === null ? "" : `in ${exactly(answer.seconds)}`,
        ),
        el("span", { class: "provenance" }),
        el("span", { class: "gold-score" }),
        el("span", { class: "edited", dir: "auto" }),
      ),
      el("p", { class: "note-shown quiet", dir: "auto" }),
    ),
    el(
      "div",
      { class: "row" },
      el("button", { type: "button", class: "edit", onclick: () => edit(row) }, "Edit"),
      el(
        "button",
        { type: "button", class: "return", onclick: () => askReturn(row.answer) },
        "Return",
      ),
      el(
        "button",
        {
          type: "button",
          class: "quiet-button history-button",
          onclick: () => showHistory(answer.item),
        },
        "History",
      ),
    ),
  );
  row.querySelector(".said").append(...spoken(answer.said));
  return row;
}

export function spoken(said) {
  if (said.skip !== undefined) return [el("p", { dir: "auto" }, `Skipped: ${said.skip}`)];
  if (said.image !== undefined) {
    const src = `/api/images/${encodeURIComponent(said.image)}`;
    return [el("img", { class: "chosen", src, alt: "The chosen image", loading: "lazy" })];
  }
  return said.captions.map((caption) => el("p", { dir: "auto" }, caption));
}

function update(row, answer) {
  row.answer = answer;
  row.dataset.state = answer.state;
  const badge = row.querySelector(".badge");
  setText(badge, answer.state);
  badge.dataset.state = answer.state;
  badge.hidden = answer.state === "stands";
  setText(row.querySelector("time"), ago(answer.at, serverNow()));
  setText(
    row.querySelector(".edited"),
    answer.edited_by === null ? "" : `edited by ${answer.edited_by}`,
  );
  const review = row.querySelector(".review");
  setText(review, REVIEW[answer.review] ?? "");
  review.hidden = answer.review === null || answer.state !== "stands";
  review.dataset.state = answer.review;
  setText(row.querySelector(".provenance"), PROVENANCE[answer.provenance] ?? "");
  setText(
    row.querySelector(".gold-score"),
    answer.gold === null ? "" : `gold: ${Math.round(100 * answer.gold)} %`,
  );
  const note = row.querySelector(".note-shown");
  setText(note, answer.note === null ? "" : `Note: ${answer.note}`);
  note.hidden = answer.note === null;
  const fixed = answer.state !== "stands" || answer.round !== open;
  row.querySelector(".edit").hidden = fixed;
  row.querySelector(".return").hidden = fixed;
}

/** Turns a row into boxes. While they are there the polls leave the row in its place. */
function edit(row) {
  if (pool === "text") return editImage(row.answer);
  if (row.querySelector(".editor")) return row.querySelector("textarea").focus();
  const { answer } = row;
  const said = row.querySelector(".said");
  const captions = answer.said.captions ?? [""];
  const boxes = captions.map((caption, index) => {
    const box = el("textarea", {
      rows: 2,
      maxlength: 4000,
      dir: "auto",
      "aria-label": `Caption ${index + 1}`,
    });
    box.value = caption;
    return box;
  });
  const close = () => {
    editor.remove();
    said.hidden = false;
    row.querySelector(".edit").focus();
  };
  const save = async () => {
    const texts = boxes.map((box) => box.value.trim()).filter((text) => text !== "");
    if (texts.length === 0) return boxes[0].focus();
    const body = { key, said: { captions: texts } };
    if (!(await act(() => request("POST", `/api/answers/${answer.answer}/revise`, body)))) return;
    close();
    announce("Saved.");
    await act(refreshAnswers);
  };
  // One key for this edit: pressing Save twice, or again after an error, is one act.
  const key = freshKey();
  const editor = el(
    "div",
    { class: "editor" },
    ...boxes,
    el(
      "div",
      { class: "row" },
      el("button", { type: "button", class: "primary save", onclick: save }, "Save"),
      el("button", { type: "button", class: "quiet-button", onclick: close }, "Cancel"),
    ),
  );
  editor.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && !event.shiftKey && event.target.matches("textarea")) {
      event.preventDefault();
      if (!event.repeat) save();
    }
  });
  said.hidden = true;
  said.after(editor);
  boxes[0].focus();
}

let returning = null;

/** Asks for a note, and returns an answer with it. */
export function askReturn(answer) {
  returning = { answer, key: freshKey() };
  setText($("return-name"), answer.person.name);
  $("return-note").value = "";
  $("return-dialog").showModal();
}

async function sendReturn(event) {
  event.preventDefault();
  const note = $("return-note").value.trim();
  if (note === "") return $("return-note").focus();
  const { answer, key } = returning;
  $("return-dialog").close();
  if (await act(() => request("POST", `/api/answers/${answer.answer}/return`, { key, note })))
    announce("Returned.");
  await act(refreshAnswers);
}

/** Everything that happened to an item, in a dialog. */
export async function showHistory(item) {
  await act(async () => {
    const { events } = await request("GET", `/api/lead/history?item=${encodeURIComponent(item)}`);
    setText($("history-item"), item);
    const rows = events.map(({ at, what, person, detail }) =>
      el(
        "li",
        {},
        el(
          "p",
          {},
          el("strong", {}, what),
          person === null ? null : el("span", { dir: "auto" }, ` by ${person}`),
        ),
        detail === null ? null : el("p", { dir: "auto" }, detail),
        el(
          "time",
          { class: "quiet", datetime: new Date(at).toISOString() },
          new Date(at).toLocaleString(),
        ),
      ),
    );
    $("history-rows").replaceChildren(...rows);
    $("history-dialog").showModal();
  });
}

/** Wires filter, paging and the dialog. */
export function prepareAnswers(me) {
  pool = me.pool;
  if (pool === "text") prepareImages(me.uploads, refreshAnswers);
  $("answers-person").addEventListener("change", () => {
    wanted = PAGE;
    act(refreshAnswers);
  });
  $("answers-older").addEventListener("click", () => {
    wanted += wanted < MOST ? PAGE : MOST;
    act(refreshAnswers);
  });
  $("return-form").addEventListener("submit", sendReturn);
}
