// The caption page: one task at a time, keyboard first, nothing typed is ever lost.

import { Refused, explain, isTemporary, request, serverNow, untilAnswered, whoAmI } from "./api.js";
import {
  drawNone,
  drawSignedOut,
  keepText,
  reasonOf,
  say,
  setView,
  showConnected,
  showProgress,
  showTrouble,
} from "./around.js";
import { CaptionBoxes } from "./boxes.js";
import { $, ago, copyText, el, setText } from "./dom.js";
import { Drafts } from "./drafts.js";
import { askWhatToFlag } from "./flag.js";
import { prepareGuidelines, showGuidelines, showUnread } from "./guidelines.js";
import { Hints } from "./hints.js";
import { Outbox } from "./outbox.js";
import { ImagePicker } from "./picker.js";
import { askWhySkip, prepareSkip } from "./skip.js";
import { prepareWhy, showWhy } from "./why.js";
import { Zoom } from "./zoom.js";

/** Milliseconds in which a second press is taken for a slip of the same finger. */
const DOUBLE_PRESS = 500;
/** Milliseconds between questions for a task while there is none. */
const POLL = 5000;

const page = {
  me: null,
  form: null,
  task: null,
  none: null,
  // While looking back: { answers, at, edits }.
  review: null,
  busy: false,
  signedOut: false,
  // Whether anything was changed since this subject was shown, and when that was.
  touched: false,
  shownAt: 0,
  // The text that was shown with "Press Enter again", and when.
  asked: null,
  askedAt: 0,
  lastActive: Date.now(),
  renewTimer: null,
  pollTimer: null,
};
const hints = new Hints($("hints"));
const zoom = new Zoom($("stage"), $("picture"), (scale) => {
  setText($("zoom"), scale > 1 ? "Whole" : "Closer");
});
let drafts;
let outbox;

// ---- Starting

async function start() {
  page.me = await untilAnswered(whoAmI, showWaiting);
  showConnected();
  const { me } = page;
  drafts = new Drafts(me.person.id, showSaving);
  outbox = new Outbox(me.person.id, showWaiting);
  const listeners = { onInput: changed, onSubmit: submit };
  page.form =
    me.pool === "text"
      ? new ImagePicker({ uploads: me.uploads, ...listeners })
      : new CaptionBoxes($("boxes"), { count: me.captions, language: me.language, ...listeners });
  prepareSkip(me.skip_reasons);
  prepareWhy(me.pool);
  setText($("name"), me.person.name);
  setText($("dataset"), me.dataset);
  $("lead-link").hidden = me.person.role !== "lead";
  $("review-link").hidden = me.person.role === "annotator";
  showProgress(page.me);
  listen();
  showUnread(me).catch(showError);
  await working(async () => {
    for (const act of outbox.pending()) await finish(act);
    await fetchNext();
  });
}

/** Sends what an earlier page could not. */
async function finish(act) {
  try {
    await outbox.deliver(act);
    if (act.kind === "submit") drafts.forget(act.body.item);
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401) throw error;
    keepText(reasonOf(error), act.body.said);
  }
}

/** What is on the page: the task in hand, or the answer that is looked at again. */
function subject() {
  const { review, task } = page;
  return review ? review.answers[review.at] : task;
}

// ---- One thing at a time

/** Does something that must not overlap with itself or others: a second click finds it busy. */
async function working(action) {
  if (page.busy || page.signedOut) return;
  setBusy(true);
  try {
    await action();
  } catch (error) {
    showError(error);
  } finally {
    setBusy(false);
    if (!page.signedOut) showConnected();
  }
}

function setBusy(busy) {
  page.busy = busy;
  document.body.toggleAttribute("data-busy", busy);
  page.form?.lock(busy);
}

function showError(error) {
  if (error instanceof Refused && error.status === 401) return showSignedOut();
  if (!(error instanceof Refused) && !isTemporary(error)) console.error(error);
  say(explain(error));
}

// ---- The next task

async function fetchNext() {
  show(await untilAnswered(() => request("POST", "/api/next"), showWaiting));
}

function show({ task, none }) {
  page.task = task;
  page.none = none;
  page.review = null;
  draw();
  clearInterval(page.renewTimer);
  if (task) page.renewTimer = setInterval(renew, task.lease_ms / 3);
  else pollLater();
  refreshProgress(task !== null);
}

function draw() {
  clearTimeout(page.pollTimer);
  page.touched = false;
  page.asked = null;
  page.shownAt = performance.now();
  hints.clear();
  say("");
  setText($("status"), "");
  if (page.review) drawReview();
  else if (page.task) drawTask();
  else drawNone(page.none, page.me);
}

function drawTask() {
  const { task, me } = page;
  const draft = drafts.of(task);
  drawSubject(task);
  $("note").hidden = !task.note;
  setText($("note-text"), task.note ?? "");
  $("reply").hidden = !task.reply;
  setText($("reply-text"), task.reply ?? "");
  showWhy(task, me.pool);
  page.form.fill(draft ?? { captions: task.suggestions, image: null }, task);
  showSuggestion();
  hints.schedule(task.item, page.form.texts);
  setView("task");
  page.form.focus();
}

/** The image or the text that is asked about: of a task, or of an answer. */
function drawSubject(subject) {
  const forText = page.me.pool === "text";
  setText($("title"), forText ? "Find the image for this text" : "Describe this image");
  setText($("item"), subject.item);
  $("item").title = subject.item;
  $("workspace").dataset.item = subject.item;
  $("workspace").classList.toggle("for-text", forText);
  for (const id of ["texts", "picker"]) $(id).hidden = !forText;
  $("stage").hidden = forText;
  if (forText) {
    const quotes = subject.texts.map((text) => el("blockquote", { dir: "auto" }, text));
    $("texts").replaceChildren(...quotes);
  } else showPicture(subject.image);
  $("review-bar").hidden = !page.review;
  for (const id of ["undo", "back"]) $(id).hidden = page.review !== null;
  setText($("submit-text"), page.review ? "Save changes" : "Submit");
  setText($("submit-key"), forText ? "Ctrl Enter" : "Enter");
}

function showPicture(address) {
  const picture = $("picture");
  zoom.reset();
  $("picture-error").hidden = address !== null;
  // The last image must not stand there while the next one is on its way.
  picture.removeAttribute("src");
  $("stage").classList.add("loading");
  if (address !== null) picture.src = address;
}

function pollLater() {
  clearTimeout(page.pollTimer);
  page.pollTimer = setTimeout(poll, POLL * (0.8 + 0.4 * Math.random()));
}

/** Asks for a task while there is none; not behind other windows, where nobody would work on it. */
async function poll() {
  const idle = () => !page.task && !page.busy && !page.review && !page.signedOut;
  if (!idle()) return;
  try {
    if (!document.hidden) {
      const next = await request("POST", "/api/next");
      showConnected();
      if (!idle()) return;
      if (next.task || next.none !== page.none) return show(next);
      refreshProgress(false);
    }
  } catch (error) {
    if (isTemporary(error)) showWaiting(error);
    else showError(error);
  }
  if (idle()) pollLater();
}

/** Keeps the task while somebody is here and doing something. */
async function renew() {
  const { task } = page;
  if (!task || page.busy || page.signedOut || document.hidden) return;
  if (Date.now() - page.lastActive > task.lease_ms) return;
  try {
    await request("POST", "/api/renew", { item: task.item });
  } catch (error) {
    if (error instanceof Refused && page.task === task) {
      if (error.status === 409) working(() => moveOn(error, task, task.draft));
      else if (error.status === 401) showSignedOut();
    }
  }
}

// ---- Answering

function changed() {
  page.touched = true;
  page.asked = null;
  say("");
  const { form, task, review } = page;
  hints.schedule(subject().item, form.texts);
  showSuggestion();
  if (review) return;
  task.draft = form.draft;
  drafts.change(task.item, task.draft);
}

/** Marks what a program wrote, while it is as the program wrote it. */
function showSuggestion() {
  const suggestions = page.review ? [] : (page.task?.suggestions ?? []);
  $("suggestion").hidden = !page.form.mark(suggestions);
}

/** Accepts what was suggested, as it is. */
function accept() {
  if (!$("suggestion").hidden) submit(true, true);
}

/**
 * Submits what is in the form; `force` does so although a box is still empty, `accepted` although
 * it is what a program suggested.
 */
function submit(force, accepted = false) {
  const { form, review, task } = page;
  const about = subject();
  if (page.busy || !about || page.signedOut) return;
  // The second Enter of a double press must not submit the draft of the task that came with the first.
  if (!page.touched && performance.now() - page.shownAt < DOUBLE_PRESS) return;
  const { said } = form;
  if (!said || (form.missing && !force)) {
    say(form.missing);
    form.focus();
    return;
  }
  if (!$("suggestion").hidden && !accepted) {
    say("This is the suggestion. Change it, or accept it as it is with Alt+A.");
    form.focus();
    return;
  }
  working(async () => {
    // Who accepts has looked: the hints stand below the suggestion.
    if (!accepted && (await wantsSecondLook(about.item, said))) return;
    if (review) await revise(about, said);
    else await answer(task, said, accepted);
  });
}

async function wantsSecondLook(item, said) {
  const text = JSON.stringify(said);
  if (page.asked === text) return performance.now() - page.askedAt < DOUBLE_PRESS;
  if (!said.captions || !(await hints.serious(item, page.form.texts))) return false;
  page.asked = text;
  page.askedAt = performance.now();
  say("Press Enter again to submit anyway.");
  return true;
}

async function answer(task, said, accept = false) {
  const draft = page.form.draft;
  drafts.stop();
  setText($("status"), "");
  try {
    const { next } = await outbox.send("submit", "/api/answers", { item: task.item, said, accept });
    drafts.forget(task.item);
    show(next);
  } catch (error) {
    if (error instanceof Refused && error.status === 409) await moveOn(error, task, draft);
    else throw error;
  }
}

/** A task is not ours any more: goes on to the next one, and leaves the text where it can be copied. */
async function moveOn(error, task, draft) {
  // Nobody may have taken it: then it comes back, and the text with it.
  if (draft) drafts.change(task.item, draft);
  drafts.stop();
  await fetchNext();
  if (page.task?.item === task.item) {
    say("The time for this one had run out. It is yours again, with your text.");
    return;
  }
  if (error.code === "already_answered") drafts.forget(task.item);
  keepText(reasonOf(error), draft);
}

async function skip() {
  const { review, task } = page;
  const about = subject();
  if (page.busy || !about) return;
  const reason = await askWhySkip();
  page.form.focus();
  if (reason === null || (page.task !== task && !review)) return;
  working(() => (review ? revise(about, { skip: reason }) : answer(task, { skip: reason })));
}

/** Asks the lead about what is on the page, and goes on with the next one. */
async function flag() {
  const { review, task } = page;
  const about = subject();
  if (page.busy || !about) return;
  const note = await askWhatToFlag(review !== null);
  page.form.focus();
  if (note === null || (page.task !== task && !review)) return;
  working(async () => {
    await drafts.flush();
    try {
      const next = await outbox.send("flag", "/api/flags", { item: about.item, note });
      if (review) endReview("The lead will see it.");
      else show(next);
      say("Flagged. The lead will see it.");
    } catch (error) {
      if (!(error instanceof Refused && error.status === 409)) throw error;
      say(reasonOf(error));
    }
  });
}

function undo() {
  if (page.review) return;
  working(async () => {
    await drafts.flush();
    // Not what a lead has corrected since; and an answer that was revised is as old as it first was.
    const own = (await standingAnswers()).filter((answer) => answer.edited_by === null);
    const last = own.sort((one, other) => other.first_at - one.first_at || other.answer - one.answer)[0];
    if (!last) return say("There is nothing to undo in this round.");
    try {
      show(await outbox.send("undo", `/api/answers/${last.answer}/undo`, {}));
      say("Taken back. Change it and submit it again.");
    } catch (error) {
      if (!(error instanceof Refused && error.status === 409)) throw error;
      say(reasonOf(error));
    }
  });
}

async function standingAnswers() {
  const get = () => request("GET", "/api/answers?limit=200");
  const { answers } = await untilAnswered(get, showWaiting);
  return answers.filter((answer) => answer.state === "stands");
}

// ---- Looking back

function back() {
  if (page.review) return turn(1);
  working(async () => {
    await drafts.flush();
    const answers = await standingAnswers();
    if (answers.length === 0) return say("You have no answers in this round yet.");
    page.review = { answers, at: 0, edits: new Map() };
    draw();
  });
}

/** To an older answer (1) or a newer one (-1); newer than the newest is the task in hand. */
function turn(step) {
  const { review } = page;
  if (!review || page.busy) return;
  if (page.touched) review.edits.set(review.at, page.form.draft);
  const at = review.at + step;
  if (at < 0) return leaveReview();
  if (at >= review.answers.length) return say("That was your first answer in this round.");
  review.at = at;
  draw();
}

function leaveReview() {
  if (page.busy) return;
  page.review = null;
  draw();
  if (!page.task) pollLater();
}

function drawReview() {
  const { answers, at, edits } = page.review;
  const answer = answers[at];
  drawSubject(answer);
  const when = ago(answer.at, serverNow());
  const skipped = answer.said.skip ? ` You skipped it: ${answer.said.skip}` : "";
  setText(
    $("review-text"),
    `Your answer ${answers.length - at} of ${answers.length}, ${when}.${skipped}`,
  );
  $("older").disabled = at + 1 >= answers.length;
  for (const id of ["note", "reply"]) $(id).hidden = true;
  showWhy({ why: [], near: [] }, page.me.pool);
  $("why-none").hidden = true;
  page.form.fill(edits.get(at) ?? answer.said, answer);
  showSuggestion();
  setView("review");
  page.form.focus();
}

async function revise(answer, said) {
  try {
    await outbox.send("revise", `/api/answers/${answer.answer}/revise`, { said });
  } catch (error) {
    if (!(error instanceof Refused && error.status === 409)) throw error;
    keepText(reasonOf(error), said);
    return endReview("");
  }
  endReview("Changes saved.");
}

function endReview(told) {
  page.review = null;
  draw();
  if (!page.task) pollLater();
  setText($("announce"), told);
  setText($("status"), told);
}

// ---- What is shown around it

async function refreshProgress(announce) {
  try {
    page.me = await whoAmI();
    showProgress(page.me);
    // What is said instead of a task is about the round as it is now.
    if (!page.task && !page.review && page.none) drawNone(page.none, page.me);
    await showUnread(page.me);
  } catch {
    // The next answer brings the next attempt.
  }
  const { round } = page.me;
  if (!announce || !round) return;
  const noun = page.me.pool === "text" ? "text" : "image";
  setText(
    $("announce"),
    `Next ${noun}, ${Math.min(round.done + 1, round.tasks)} of ${round.tasks}`,
  );
}

const showWaiting = (error) => showTrouble(error, outbox?.pending().length > 0);

function showSaving(state) {
  const texts = {
    saving: "",
    saved: "Saved",
    offline: "Not connected: kept in this browser, trying again",
    "signed-out": "",
  };
  setText($("status"), texts[state]);
  $("status").dataset.state = state;
  if (state === "signed-out") showSignedOut();
}

function showSignedOut() {
  page.signedOut = true;
  clearInterval(page.renewTimer);
  clearTimeout(page.pollTimer);
  showConnected();
  drawSignedOut();
}

// ---- Keys and clicks

const ACTS = { skip, flag, undo, back };
const ALT_KEYS = {
  a: accept,
  s: skip,
  l: flag,
  u: undo,
  b: back,
  n: () => turn(-1),
  i: () => zoom.toggle(),
  w: () => $("why").querySelector("summary").click(),
  h: () => $("help-dialog").showModal(),
  g: () => showGuidelines(page.me.guidelines).catch(showError),
};

function onKey(event) {
  page.lastActive = Date.now();
  if (document.querySelector("dialog[open]") || event.isComposing) return;
  if (event.altKey && !event.ctrlKey && !event.metaKey) {
    // Layouts differ, and Option on a Mac makes other letters: the letter first, else the place.
    const act =
      ALT_KEYS[event.key.toLowerCase()] ?? ALT_KEYS[event.code.replace("Key", "").toLowerCase()];
    if (!act) return;
    event.preventDefault();
    if (!event.repeat) act();
  } else if (event.key === "Escape") {
    // Or else the browser would close the dialog that this opens.
    event.preventDefault();
    onEscape();
  } else if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey) {
    // Only where there is no typing that the browser itself could take back.
    const untouched =
      event.target.matches?.("textarea.caption") && event.target.value === "" && !page.touched;
    if (!untouched) return;
    event.preventDefault();
    undo();
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented)
    submit(true);
}

function onEscape() {
  if ($("menu").open) $("menu").open = false;
  else if (zoom.closer) zoom.reset();
  else if (page.review) leaveReview();
  else if (page.task) skip();
}

function listen() {
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", (event) => {
    page.lastActive = Date.now();
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || page.signedOut) return;
    page.lastActive = Date.now();
    if (page.task) renew();
    else poll();
  });
  $("answer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit(false);
  });
  for (const button of document.querySelectorAll("[data-act]")) {
    button.addEventListener("click", () => ACTS[button.dataset.act]());
  }
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  $("help").addEventListener("click", ALT_KEYS.h);
  $("guidelines-button").addEventListener("click", () => {
    $("menu").open = false;
    ALT_KEYS.g();
  });
  prepareGuidelines(showError, () => subject() && page.form.focus());
  $("accept").addEventListener("click", accept);
  $("older").addEventListener("click", () => turn(1));
  $("newer").addEventListener("click", () => turn(-1));
  $("leave-review").addEventListener("click", leaveReview);
  $("zoom").addEventListener("click", () => zoom.toggle());
  $("zoom-in").addEventListener("click", () => zoom.in());
  $("zoom-out").addEventListener("click", () => zoom.out());
  $("picture").addEventListener("load", () => $("stage").classList.remove("loading"));
  $("picture").addEventListener("error", () => ($("picture-error").hidden = false));
  $("picture-retry").addEventListener("click", () => {
    showPicture(subject().image);
  });
  $("kept-close").addEventListener("click", () => {
    $("kept").hidden = true;
    if (page.task) page.form.focus();
  });
  $("kept-copy").addEventListener("click", async () => {
    if (!(await copyText($("kept-text").value))) $("kept-text").select();
    else setText($("kept-copy"), "Copied");
  });
  $("sign-out").addEventListener("click", () =>
    working(async () => {
      await drafts.flush();
      await request("POST", "/api/sign-out");
      location.assign("/");
    }),
  );
}

start().catch(showError);
