// The page of reviewers: one answer at a time, to accept, correct or return.

import { Refused, explain, freshKey, isTemporary, request, untilAnswered, whoAmI } from "./api.js";
import { CaptionBoxes } from "./boxes.js";
import { $, el, plural, setText } from "./dom.js";
import { Zoom } from "./zoom.js";

/** Milliseconds between looks while nothing waits. */
const POLL = 5000;
/** Milliseconds in which a second press is taken for a slip of the same finger. */
const DOUBLE_PRESS = 500;

const page = {
  me: null,
  form: null,
  answer: null,
  // Answers that were put off, so that the next ones come first.
  later: new Set(),
  busy: false,
  shownAt: 0,
  timer: null,
};
const zoom = new Zoom($("stage"), $("picture"), (scale) => {
  setText($("zoom"), scale > 1 ? "Whole" : "Closer");
});

/** Fetches what waits, and shows the first of it. */
async function fetchNext() {
  clearTimeout(page.timer);
  const { waiting, answers } = await untilAnswered(
    () => request("GET", "/api/review?limit=200"),
    showTrouble,
  );
  $("connection").hidden = true;
  setText($("waiting"), waiting === 0 ? "" : `${plural(waiting, "answer")} to review`);
  const fresh = answers.filter(({ answer }) => !page.later.has(answer));
  if (fresh.length === 0) page.later.clear();
  show((fresh.length > 0 ? fresh : answers)[0] ?? null);
}

function show(answer) {
  const same = page.answer !== null && answer?.answer === page.answer.answer;
  page.answer = answer;
  document.body.dataset.view = answer ? "review" : "none";
  $("workspace").hidden = answer === null;
  $("state").hidden = answer !== null;
  if (!answer) {
    setText($("state-title"), "Nothing to review");
    setText($("state-text"), "When somebody has answered, it appears here by itself.");
    page.timer = setTimeout(() => document.hidden || working(fetchNext), POLL);
    return;
  }
  if (!same) draw(answer);
}

function draw(answer) {
  const { said } = answer;
  page.shownAt = performance.now();
  setText($("message"), "");
  $("workspace").dataset.answer = answer.answer;
  setText($("item"), answer.item);
  const quotes = answer.texts.map((text) => el("blockquote", { dir: "auto" }, text));
  $("texts").replaceChildren(...quotes);
  $("texts").hidden = quotes.length === 0;
  const skipped = said.skip !== undefined;
  setText($("skipped"), skipped ? `Skipped: ${said.skip}` : "");
  $("skipped").hidden = !skipped;
  showPicture(said.image ? `/api/images/${encodeURIComponent(said.image)}` : answer.image);
  // Captions can be corrected here, and a skip by a caption; another image is chosen by its author.
  const captions = said.captions ?? (page.me.pool === "image" ? [""] : []);
  $("boxes").replaceChildren();
  page.form = new CaptionBoxes($("boxes"), {
    count: captions.length,
    language: page.me.language,
    onInput: () => {
      setText($("message"), "");
      changed();
    },
    onSubmit: submit,
  });
  page.form.fill({ captions });
  changed();
  (captions.length > 0 && !skipped ? page.form : $("submit")).focus();
  setText($("announce"), "Next answer");
}

function showPicture(address) {
  zoom.reset();
  $("stage").hidden = address === null && page.answer.texts.length > 0;
  $("picture-error").hidden = address !== null;
  $("picture").removeAttribute("src");
  $("stage").classList.add("loading");
  if (address !== null) $("picture").src = address;
}

/** What the reviewer wrote instead, or null where nothing was changed. */
function correction() {
  const captions = page.form.texts.map((text) => text.trim()).filter((text) => text !== "");
  const before = page.answer.said.captions ?? [];
  const same = captions.length === before.length && captions.every((text, at) => text === before[at]);
  return same || captions.length === 0 ? null : { captions };
}

function changed() {
  const corrected = correction() !== null;
  setText($("submit-text"), corrected ? "Save the correction" : "Accept");
  $("restore").disabled = !corrected;
}

async function working(action) {
  if (page.busy) return;
  page.busy = true;
  document.body.toggleAttribute("data-busy", true);
  try {
    await action();
  } catch (error) {
    showError(error);
  } finally {
    page.busy = false;
    document.body.removeAttribute("data-busy");
  }
}

/** Does one thing to the answer, and goes on; what somebody else was faster with is passed over. */
function judge(path, body, told) {
  const { answer } = page.answer;
  const key = freshKey();
  working(async () => {
    const send = () => request("POST", `/api/answers/${answer}/${path}`, { ...body, key });
    let said = told;
    try {
      await untilAnswered(send, showTrouble);
    } catch (error) {
      if (!(error instanceof Refused && [404, 409].includes(error.status))) throw error;
      said = "Somebody else was faster with that one, or its author changed it.";
    }
    await fetchNext();
    setText($("message"), said);
  });
}

function submit() {
  if (!page.answer) return;
  const said = correction();
  // The second Enter of a double press must not accept an answer that nobody has looked at.
  if (!said && performance.now() - page.shownAt < DOUBLE_PRESS) return;
  if (said) judge("revise", { said }, "Correction saved.");
  else judge("accept", {}, "Accepted.");
}

function askReturn() {
  if (!page.answer || page.busy) return;
  $("return-note").value = "";
  $("return-dialog").showModal();
  $("return-note").focus();
}

function sendReturn(event) {
  event.preventDefault();
  const note = $("return-note").value.trim();
  if (note === "") return $("return-note").focus();
  $("return-dialog").close();
  judge("return", { note }, "Returned.");
}

function later() {
  if (!page.answer) return;
  page.later.add(page.answer.answer);
  working(fetchNext);
}

function restore() {
  if (!page.answer) return;
  page.form.fill({ captions: page.answer.said.captions ?? [] });
  changed();
}

function showTrouble(error) {
  const what = error instanceof Refused ? "The server is busy." : "Not connected.";
  setText($("connection"), `${what} Trying again…`);
  $("connection").hidden = false;
}

function showError(error) {
  if (error instanceof Refused && error.status === 401) {
    page.answer = null;
    for (const id of ["workspace", "connection"]) $(id).hidden = true;
    $("state").hidden = false;
    document.body.dataset.view = "signed-out";
    setText($("state-title"), "You are signed out");
    setText($("state-text"), "Open your invitation link again to go on.");
    return;
  }
  if (!(error instanceof Refused) && !isTemporary(error)) console.error(error);
  setText($("message"), explain(error));
}

const ALT_KEYS = { r: askReturn, n: later, i: () => zoom.toggle() };

function listen() {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || event.isComposing) return;
    if (event.altKey && !event.ctrlKey && !event.metaKey) {
      const act =
        ALT_KEYS[event.key.toLowerCase()] ?? ALT_KEYS[event.code.replace("Key", "").toLowerCase()];
      if (!act) return;
      event.preventDefault();
      if (!event.repeat) act();
    } else if (event.key === "Escape") {
      if ($("menu").open) $("menu").open = false;
      else if (zoom.closer) zoom.reset();
      else restore();
    }
  });
  document.addEventListener("pointerdown", (event) => {
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !page.answer) working(fetchNext);
  });
  $("answer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  $("return").addEventListener("click", askReturn);
  $("return-form").addEventListener("submit", sendReturn);
  $("return-note").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) sendReturn(event);
  });
  $("restore").addEventListener("click", restore);
  $("later").addEventListener("click", later);
  $("zoom").addEventListener("click", () => zoom.toggle());
  $("zoom-in").addEventListener("click", () => zoom.in());
  $("zoom-out").addEventListener("click", () => zoom.out());
  $("picture").addEventListener("load", () => $("stage").classList.remove("loading"));
  $("picture").addEventListener("error", () => ($("picture-error").hidden = false));
  for (const button of document.querySelectorAll("dialog [data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  $("sign-out").addEventListener("click", () =>
    working(async () => {
      await request("POST", "/api/sign-out");
      location.assign("/");
    }),
  );
}

async function start() {
  page.me = await untilAnswered(whoAmI, showTrouble);
  setText($("name"), page.me.person.name);
  $("lead-link").hidden = page.me.person.role !== "lead";
  listen();
  await working(fetchNext);
}

start().catch(showError);
