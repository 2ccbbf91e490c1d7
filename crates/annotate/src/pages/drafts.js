// What is typed and not yet submitted. Every change is kept in the browser at once and goes to the
// server a moment later. The browser's copy is dropped when the server has the same, so one that is
// found on loading is newer than the server's.

import { Refused, isTemporary, request } from "./api.js";
import { drop, keep, recall } from "./storage.js";

const PAUSE = 800;
const RETRY = 4000;

export class Drafts {
  /** `onState` hears "saving", "saved", "offline" and "signed-out". */
  constructor(person, onState) {
    this.person = person;
    this.onState = onState;
    this.unsaved = null;
    this.timer = null;
    this.sending = null;
    window.addEventListener("online", () => this.flush());
    // A phone may never come back to a page that it hides.
    document.addEventListener("visibilitychange", () => document.hidden && this.flush());
  }

  /** The draft of a task: what this browser has not saved yet, or else what the server has. */
  of(task) {
    return recall(["draft", this.person, task.item]) ?? task.draft;
  }

  /** Keeps a change. */
  change(item, draft) {
    keep(["draft", this.person, item], draft);
    this.unsaved = { item, draft };
    this.onState("saving");
    this.later(PAUSE);
  }

  /** Sends what the server does not have, now. */
  async flush() {
    clearTimeout(this.timer);
    if (!this.unsaved || this.sending) return;
    const sent = this.unsaved;
    this.sending = new AbortController();
    try {
      await request("PUT", "/api/drafts", sent, {
        signal: this.sending.signal,
        keepalive: document.hidden,
      });
      if (this.unsaved === sent) {
        this.unsaved = null;
        drop(["draft", this.person, sent.item]);
        this.onState("saved");
      }
    } catch (error) {
      if (isTemporary(error)) {
        this.onState("offline");
        this.later(RETRY);
      } else if (error instanceof Refused) {
        // The task is not ours any more. What was typed stays in the browser.
        if (this.unsaved === sent) this.unsaved = null;
        if (error.status === 401) this.onState("signed-out");
      }
    } finally {
      this.sending = null;
    }
    if (this.unsaved && this.unsaved !== sent) this.later(PAUSE);
  }

  /** Stops saving: the text is about to be submitted, and a late draft must not come after it. */
  stop() {
    clearTimeout(this.timer);
    this.sending?.abort();
    this.unsaved = null;
  }

  /** Drops the draft of an item that was answered. */
  forget(item) {
    drop(["draft", this.person, item]);
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), milliseconds);
  }
}
