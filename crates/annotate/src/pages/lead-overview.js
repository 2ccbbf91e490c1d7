// How the round goes, and what the lead can do about it.

import { request, serverNow } from "./api.js";
import { $, clock, inWords, matchChildren, el, plural, setText } from "./dom.js";
import { act, announce, confirmed } from "./lead-actions.js";

let overview = null;

/** Shows a fresh overview. */
export function showOverview(fresh) {
  overview = fresh;
  const { round, paused, tasks, done, skipped, held, open } = fresh;
  setText($("round"), round ? `Round ${round.number}` : "No round yet");
  const state = !round
    ? "waiting"
    : round.state === "closed"
      ? "closed"
      : paused
        ? "paused"
        : "open";
  setText($("round-state"), state);
  $("round-state").dataset.state = state;
  setText($("pause"), paused ? "Resume" : "Pause");
  $("close").disabled = round?.state !== "open";
  $("close").classList.toggle("primary", round?.state === "open" && done === tasks);

  const captioned = done - skipped;
  const share = (count) => `${(100 * count) / Math.max(1, tasks)}%`;
  $("segment-done").style.inlineSize = share(captioned);
  $("segment-skipped").style.inlineSize = share(skipped);
  $("segment-held").style.inlineSize = share(held);
  setText($("count-done"), `${captioned} answered`);
  setText($("count-skipped"), `${skipped} skipped`);
  setText($("count-held"), `${held} in hand`);
  setText($("count-open"), `${open} open`);

  setText($("fact-done"), `${done.toLocaleString()} of ${tasks.toLocaleString()}`);
  setText($("fact-gold"), fresh.gold === 0 ? "" : `${fresh.gold} of them gold`);
  setText(
    $("fact-rate"),
    fresh.per_hour === null ? "–" : fresh.per_hour.toFixed(fresh.per_hour < 10 ? 1 : 0),
  );
  setText($("fact-left"), timeLeft());
  setText($("fact-captions"), fresh.captions.toLocaleString());
  setText($("fact-cost"), fresh.cost === null ? "–" : money(fresh.cost));
  setText($("fact-review"), fresh.waiting === 0 ? "none" : `${fresh.waiting} waiting`);
  showPrice();
  showShare();
  showAgreement(fresh.agreement);
  showCountdown();
  showRounds(fresh.rounds);
}

function timeLeft() {
  if (overview.tasks > 0 && overview.done === overview.tasks) return "none";
  return overview.eta_seconds === null ? "–" : inWords(overview.eta_seconds);
}

// No currency: the price is in whatever the lead counts in.
const money = (amount) =>
  amount.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** The price, unless the lead is just typing another one. */
function showPrice() {
  const price = overview.price === null ? "" : String(overview.price);
  if ($("price-save").hidden) $("price").value = price;
}

/** The share of answers to review, unless the lead is just typing another one. */
function showShare() {
  const share = String(Math.round(overview.review_share * 1000) / 10);
  if ($("share-save").hidden) $("share").value = share;
}

function showAgreement({ items, word_overlap, split_skips }) {
  $("agreement").hidden = items === 0;
  if (items === 0) return;
  const overlap =
    word_overlap === null
      ? ""
      : ` Their captions share ${Math.round(100 * word_overlap)} % of their words, on average.`;
  const split = ` ${plural(split_skips, "item")} ${split_skips === 1 ? "was" : "were"} skipped by one and answered by another.`;
  setText(
    $("agreement"),
    `Agreement: several people answered ${plural(items, "item")}.${overlap}${split}`,
  );
}

/** That a round is closed, where its answers are, and what comes next. */
function closed(shown) {
  const { round, finished, outcomes } = shown ?? {};
  if (round?.state !== "closed") return finished ? "Everything was answered before." : "";
  const when = round.closed_at === null ? "" : ` on ${new Date(round.closed_at).toLocaleString()}`;
  const where = round.handed_over ? "Its answers are handed over." : "Its answers are being handed over.";
  const { answered, refused, unanswered, unreviewed } = outcomes;
  const items = `${answered} answered, ${refused} refused, ${unanswered} back in the pool`;
  const kept = unreviewed === 0 ? "" : `, ${unreviewed} kept for review`;
  const next = finished ? "No round comes after it." : "The next one opens by itself.";
  return `Closed${when}: ${items}${kept}. ${where} ${next}`;
}

/** How long a complete round stays open. Called every second, between the polls. */
export function showCountdown() {
  const closesAt = overview?.closes_at ?? null;
  const left = (closesAt - serverNow()) / 1000;
  setText(
    $("closes"),
    closesAt === null ? closed(overview) : `Complete: closes by itself in ${clock(left)}.`,
  );
}

function showRounds(rounds) {
  const select = $("export-round");
  if (select.options.length === rounds.length + 1) return;
  matchChildren(select, [{ number: "" }, ...rounds], {
    key: (round) => round.number,
    create: (round) => el("option", { value: round.number }),
    update: (option, round) =>
      setText(option, round.number === "" ? "all rounds" : `round ${round.number}`),
  });
}

function showExportLinks() {
  const round = $("export-round").value;
  for (const link of document.querySelectorAll("[data-format]")) {
    link.href = `/api/lead/export?format=${link.dataset.format}${round === "" ? "" : `&round=${round}`}`;
  }
}

/** What closing the round does to its items, a line for each kind. */
function consequences({ outcomes, flags }) {
  const { answered, refused, unanswered, unreviewed } = outcomes;
  const some = (count, text) => (count === 0 ? [] : [text(count === 1)]);
  return [
    `Handed over: ${plural(answered, "answered item")} and ${plural(refused, "refused item")}.`,
    ...some(unanswered, (one) => `Back to the pool: ${plural(unanswered, "item")} without an answer. ${one ? "It" : "They"} can be picked again.`),
    ...some(unreviewed, (one) => `Kept: ${plural(unreviewed, "item")} whose answers wait for review. ${one ? "It is" : "They are"} handed over after the review, which stays open.`),
    ...some(flags, (one) => `${plural(flags, "flag")} ${one ? "waits" : "wait"} for you.`),
    "The round takes no more answers after that.",
  ].join("\n\n");
}

async function close(refresh) {
  const { round, outcomes } = overview;
  const title = `Close round ${round.number}?`;
  if (!(await confirmed(title, consequences(overview), "Close round"))) return;
  const unanswered = outcomes.unanswered === 0 ? "refuse" : "release";
  const unreviewed = outcomes.unreviewed === 0 && overview.waiting === 0 ? "refuse" : "keep";
  const body = { round: round.number, unanswered, unreviewed };
  await act(() => request("POST", "/api/lead/close", body));
  refresh();
}

/** Wires the buttons; `refresh` brings a fresh overview. */
export function prepareOverview(refresh) {
  $("pause").addEventListener("click", async () => {
    const paused = !overview.paused;
    if (await act(() => request("PUT", "/api/lead/pause", { paused })))
      announce(paused ? "Paused." : "Resumed.");
    refresh();
  });
  $("close").addEventListener("click", () => close(refresh));
  $("price").addEventListener("input", () => ($("price-save").hidden = false));
  $("price").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    $("price-save").hidden = true;
    showPrice();
  });
  $("price-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const typed = $("price").value.trim().replace(",", ".");
    const price = typed === "" ? null : Number(typed);
    const wrong = price !== null && !(price >= 0 && price <= 1_000_000);
    $("price").setAttribute("aria-invalid", String(wrong));
    if (wrong) return announce("A price is a number.");
    if (await act(() => request("PUT", "/api/lead/price", { price })))
      $("price-save").hidden = true;
    refresh();
  });
  $("share").addEventListener("input", () => ($("share-save").hidden = false));
  $("share").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    $("share-save").hidden = true;
    showShare();
  });
  $("share-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const share = Number($("share").value.trim().replace(",", ".")) / 100;
    const wrong = !(share >= 0 && share <= 1);
    $("share").setAttribute("aria-invalid", String(wrong));
    if (wrong) return announce("A share is from 0 to 100 %.");
    if (await act(() => request("PUT", "/api/lead/review", { share })))
      $("share-save").hidden = true;
    refresh();
  });
  $("export-round").addEventListener("change", showExportLinks);
  showExportLinks();
}
