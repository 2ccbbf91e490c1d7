// The lead's page: polls the overview, and the rest when the overview says that something happened.

import { Refused, isTemporary, request, untilAnswered, whoAmI } from "./api.js";
import { $, setText } from "./dom.js";
import { prepareAnswers, refreshAnswers, setOpenRound } from "./lead-answers.js";
import { act, prepareDialogs } from "./lead-actions.js";
import { prepareFlags, refreshFlags } from "./lead-flags.js";
import { prepareGuidelines, refreshGuidelines } from "./lead-guidelines.js";
import { prepareOverview, showCountdown, showOverview } from "./lead-overview.js";
import { preparePeople, showPeople } from "./lead-people.js";
import { prepareQuality, refreshQuality } from "./lead-quality.js";
import { prepareQueue, refreshQueue } from "./lead-queue.js";

const POLL = 2000;
/** Polls after which answers and queue are fetched although no count has changed. */
const ANYWAY = 5;

let me = null;
let timer = null;
let polling = false;
let again = false;
let stopped = false;
let sinceDetails = ANYWAY;
let lastCounts = "";

/** Fetches everything that may have changed, now. */
async function refresh() {
  sinceDetails = ANYWAY;
  await poll();
}

/** One poll at a time; a wish for another one meanwhile is remembered. */
async function poll() {
  clearTimeout(timer);
  if (stopped || document.hidden) return;
  if (polling) {
    again = true;
    return;
  }
  polling = true;
  try {
    do {
      again = false;
      await fetchAll();
    } while (again);
    showConnected();
  } catch (error) {
    showTrouble(error);
  } finally {
    polling = false;
    if (!stopped) timer = setTimeout(poll, POLL);
  }
}

async function fetchAll() {
  const overview = await request("GET", "/api/lead/overview");
  showOverview(overview);
  setOpenRound(overview.round);
  showPeople(overview.people, me.person, refresh);
  const counts = JSON.stringify([
    overview.round,
    overview.answers,
    overview.captions,
    overview.held,
    overview.flags,
    overview.waiting,
    overview.people.map(({ answered, skipped, returned }) => [answered, skipped, returned]),
  ]);
  sinceDetails += 1;
  if (counts === lastCounts && sinceDetails < ANYWAY) return;
  await Promise.all([
    refreshAnswers(),
    refreshQueue(),
    refreshGuidelines(),
    refreshFlags(overview.round),
    refreshQuality(overview.round),
  ]);
  lastCounts = counts;
  sinceDetails = 0;
}

function showConnected() {
  $("connection").hidden = true;
  document.body.dataset.connection = "ok";
}

function showTrouble(error) {
  if (error instanceof Refused && error.status === 401) {
    return stop("You are signed out", "Open your invitation link again to go on.");
  }
  if (error instanceof Refused && error.status === 403) {
    return stop("This page is for leads", "Your link is one for annotators.");
  }
  if (!isTemporary(error)) console.error(error);
  const busy = error instanceof Refused;
  setText(
    $("connection"),
    busy ? "The server is busy. Trying again…" : "Not connected. Trying again…",
  );
  $("connection").hidden = false;
  document.body.dataset.connection = "lost";
}

function stop(title, text) {
  stopped = true;
  setText($("state-title"), title);
  setText($("state-text"), text);
  setView("signed-out");
}

function setView(view) {
  document.body.dataset.view = view;
  $("lead").hidden = view !== "lead";
  $("state").hidden = view === "lead";
  $("connection").hidden = true;
}

function listen() {
  prepareDialogs();
  prepareOverview(refresh);
  preparePeople(refresh);
  prepareAnswers(me);
  prepareQueue();
  prepareGuidelines();
  prepareFlags(refresh);
  prepareQuality();
  document.addEventListener("visibilitychange", () => poll());
  window.addEventListener("online", () => poll());
  document.addEventListener("pointerdown", (event) => {
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  $("sign-out").addEventListener("click", () =>
    act(async () => {
      await request("POST", "/api/sign-out");
      location.assign("/");
    }),
  );
  setInterval(showCountdown, 1000);
}

async function start() {
  me = await untilAnswered(whoAmI, showTrouble);
  setText($("name"), me.person.name);
  setText($("dataset"), me.dataset);
  listen();
  if (me.person.role !== "lead")
    return stop("This page is for leads", "Your link is one for annotators.");
  setView("lead");
  await refresh();
}

start().catch(showTrouble);
