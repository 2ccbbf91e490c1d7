// A page of an experiment that runs: it asks for news, and takes new parts in without losing the reader's place.

/** Time between two questions, and between two announcements of progress, in milliseconds. */
const ASK_EVERY = 2000;
const SAY_EVERY = 30000;

const live = document.getElementById("live");
/** The sections as they came, before the other scripts change them: parts that are the same stay as they are. */
const sources = new Map([...document.querySelectorAll("main > section")].map((one) => [one.id, one.outerHTML]));
const title = document.title;
let version = Number(live.dataset.version);
let activity = live.dataset.activity;
let saidAt = 0;
let held = false;

/** Returns the part of the page at the top of the window, and how far it is from there. */
function readersPlace() {
  for (const part of document.querySelectorAll("main > section > *")) {
    const { top, bottom } = part.getBoundingClientRect();
    if (bottom > 0) return { section: part.parentElement.id, at: [...part.parentElement.children].indexOf(part), top };
  }
  return null;
}

function goBackTo(place) {
  const section = place && document.getElementById(place.section);
  const part = section?.children[place.at] ?? section;
  if (part) scrollBy({ top: part.getBoundingClientRect().top - place.top, behavior: "instant" });
}

/** Remembers what is open and scrolled in a section, and returns how to do so in another one. */
function kept(section) {
  const all = (selector) => [...(section?.querySelectorAll(selector) ?? [])];
  const open = all("details").map((one) => one.open);
  const frames = all(".scroll, .tiles").map((one) => [one.scrollLeft, one.scrollTop]);
  return (fresh) => {
    fresh.querySelectorAll("details").forEach((one, at) => (one.open = open[at] ?? one.open));
    fresh.querySelectorAll(".scroll, .tiles").forEach((one, at) => {
      if (frames[at]) [one.scrollLeft, one.scrollTop] = frames[at];
    });
  };
}

/** Takes the sections of a new page that differ from those of this one. */
function takeIn(next) {
  const main = document.querySelector("main");
  const old = new Map([...main.children].map((one) => [one.id, one]));
  let before = null;
  for (const section of [...next.querySelectorAll("main > section")]) {
    const source = section.outerHTML;
    const known = old.get(section.id);
    old.delete(section.id);
    if (known && sources.get(section.id) === source) {
      before = known;
      continue;
    }
    sources.set(section.id, source);
    const restore = kept(known);
    const fresh = document.importNode(section, true);
    if (known) known.replaceWith(fresh);
    else if (before) before.after(fresh);
    else main.prepend(fresh);
    enhance(fresh);
    restore(fresh);
    before = fresh;
  }
  for (const gone of old.values()) gone.remove();
  document.querySelector(".contents ol").replaceWith(document.importNode(next.querySelector(".contents ol"), true));
  enhanceContents();
}

async function refresh(newer) {
  const answer = await fetch("./", { cache: "no-store" });
  if (!answer.ok) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  // The answer took its time: the reader may be at it now.
  if (held) return;
  const [place, focused] = [scrollY > 0 ? readersPlace() : null, document.activeElement];
  const caret = focused?.type === "search" ? [focused.selectionStart, focused.selectionEnd] : null;
  hideTip();
  takeIn(next);
  if (focused?.id && !focused.isConnected) {
    const same = document.getElementById(focused.id);
    same?.focus({ preventScroll: true });
    if (caret) same?.setSelectionRange(...caret);
  }
  goBackTo(place);
  version = newer;
  live.dataset.version = newer;
}

/** Shows what is going on. Screen readers hear of it when something ends or begins, or now and then. */
function tell(news) {
  document.getElementById("live-now").textContent = news.now;
  const bar = document.getElementById("live-done");
  const progressed = Number(bar.value) !== news.done;
  [bar.max, bar.value] = [news.all, news.done];
  document.title = news.activity === "finished" ? title : `${news.done}/${news.all} · ${title}`;
  const changed = news.activity !== activity;
  if (changed || (progressed && Date.now() - saidAt > SAY_EVERY)) {
    document.getElementById("live-said").textContent = news.now;
    saidAt = Date.now();
  }
  activity = live.dataset.activity = news.activity;
}

function lost() {
  const line = document.getElementById("live-now");
  if (activity === "lost") return;
  activity = live.dataset.activity = "lost";
  line.textContent = `No news since ${new Date().toLocaleTimeString()}: the program that serves this page has ended.`;
  document.getElementById("live-said").textContent = line.textContent;
}

async function ask() {
  if (!document.hidden && !held) {
    try {
      const news = await (await fetch("status", { cache: "no-store" })).json();
      tell(news);
      if (news.version !== version) await refresh(news.version);
      if (news.last && news.version === version) return;
    } catch {
      lost();
    }
  }
  setTimeout(ask, activity === "lost" ? 5 * ASK_EVERY : ASK_EVERY);
}

// Nothing moves under a pointer that is down: it may draw around items, or drag.
addEventListener("pointerdown", () => (held = true), true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (held = false), true);
if (live.dataset.last !== "true") setTimeout(ask, ASK_EVERY);
