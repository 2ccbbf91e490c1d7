// What stands around the work on the caption page: progress, connection, messages, and what is shown
// when there is nothing to do. Nothing here knows what a task is.

import { Refused, explain } from "./api.js";
import { $, plural, setText } from "./dom.js";

const NONE = {
  done: ({ round }) => [
    "All done for now",
    `Everything in round ${round?.number} has its answers. Thank you! When there is more to do, it appears here by itself.`,
  ],
  paused: () => ["Paused", "The lead has paused the work. It goes on here by itself."],
  waiting: () => [
    "Nearly there",
    "What is left is in other hands, or waits for the lead. If something becomes free, it appears here by itself.",
  ],
  closed: ({ round, finished, answered, skipped }) => [
    finished ? "The work is finished" : `Round ${round?.number} is closed`,
    `${closed(round)} ${yours(answered + skipped)} ${
      finished
        ? "There is nothing left to answer, and no round after this one. Thank you!"
        : "Nothing more can be answered in it. The next round appears here by itself."
    }`,
  ],
  no_round: ({ finished }) =>
    finished
      ? ["The work is finished", "Everything was answered before. Nothing is left to do here."]
      : ["Nothing to do yet", "The first round appears here by itself."],
};

/** When a round was closed, and how far it was. */
function closed(round) {
  if (!round) return "";
  const when = round.closed_at === null ? "" : ` on ${new Date(round.closed_at).toLocaleString()}`;
  return `Round ${round.number} was closed${when}, with ${round.done} of ${round.tasks} done.`;
}

const yours = (count) => (count === 0 ? "" : `${plural(count, "answer")} of yours ${count === 1 ? "is" : "are"} in it.`);

/** Says why there is no task. */
export function drawNone(none, me) {
  const [title, text] = NONE[none](me);
  drawState(title, text);
  $("state").dataset.none = none;
  $("state-actions").hidden = none === "no_round" || none === "closed";
  setView("none");
}

/** Says that nothing can be done before signing in again. */
export function drawSignedOut() {
  drawState(
    "You are signed out",
    "Open your invitation link again to go on. What you typed is kept in this browser.",
  );
  setView("signed-out");
}

function drawState(title, text) {
  setText($("state-title"), title);
  setText($("state-text"), text);
  $("state-actions").hidden = true;
}

/** Switches between the work ("task", "review") and a page of words. */
export function setView(view) {
  document.body.dataset.view = view;
  const working = view === "task" || view === "review";
  $("workspace").hidden = !working;
  $("state").hidden = working;
  (working ? $("workspace") : $("state")).querySelector(".message-slot").append($("message"));
}

const REASONS = {
  lease_lost: "This one went to somebody else in the meantime.",
  round_closed: "The round was closed before this arrived.",
  already_answered: "You had answered this one already.",
  not_standing: "That answer was changed in the meantime.",
};
/** Why something that was on its way was refused. */
export const reasonOf = (error) => REASONS[error.code] ?? explain(error);

/** Leaves text that could not be submitted where it can be copied. */
export function keepText(why, saidOrDraft) {
  const text = (saidOrDraft?.captions ?? []).filter((caption) => caption.trim() !== "").join("\n");
  setText($("kept-why"), text === "" ? why : `${why} Your text is kept here in case you need it:`);
  $("kept-text").value = text;
  for (const id of ["kept-text", "kept-copy"]) $(id).hidden = text === "";
  setText($("kept-copy"), "Copy");
  $("kept").hidden = false;
}

/** How far the round is. */
export function showProgress({ round, answered, skipped }) {
  $("progress-area").hidden = !round;
  if (!round) return;
  setText($("round"), `Round ${round.number}${round.state === "closed" ? ", closed" : ""}`);
  $("progress").max = Math.max(1, round.tasks);
  $("progress").value = round.done;
  setText($("progress-text"), `${round.done} of ${round.tasks}`);
  setText($("mine"), `${answered + skipped} by you`);
}

/** The server cannot be reached, or is too busy; `waiting` when an answer is on its way. */
export function showTrouble(error, waiting) {
  const what = error instanceof Refused ? "The server is busy." : "Not connected.";
  const then = waiting ? "Your answer is kept in this browser and will be sent." : "Trying again…";
  setText($("connection"), `${what} ${then}`);
  $("connection").hidden = false;
  document.body.dataset.connection = "lost";
}

/** The server has answered. */
export function showConnected() {
  $("connection").hidden = true;
  document.body.dataset.connection = "ok";
}

/** A word beside the work, also for those who do not see it. */
export function say(text) {
  setText($("message"), text);
  if (text !== "") setText($("announce"), text);
}
