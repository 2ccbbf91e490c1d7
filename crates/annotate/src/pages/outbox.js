// Acts on their way to the server: kept in the browser before they are sent, sent until answered,
// always under the same key. So an answer survives a lost connection, a reload and a double click.

import { Refused, freshKey, request, untilAnswered } from "./api.js";
import { drop, keep, recallAll } from "./storage.js";

export class Outbox {
  /** `onTrouble` hears of attempts that failed and are made again. */
  constructor(person, onTrouble) {
    this.person = person;
    this.onTrouble = onTrouble;
  }

  /** Does something once: `kind` says what it is to whoever finds it after a reload. */
  async send(kind, path, body) {
    const key = freshKey();
    const act = { key, kind, path, body: { ...body, key }, at: Date.now() };
    keep(["outbox", this.person, key], act);
    return await this.deliver(act);
  }

  /** Acts that an earlier page did not see answered, the oldest first. */
  pending() {
    return recallAll(["outbox", this.person]).sort((a, b) => a.at - b.at);
  }

  /** Sends an act until it is answered. One that is refused is over, unless signing in may help. */
  async deliver(act) {
    const forget = () => drop(["outbox", this.person, act.key]);
    try {
      const answer = await untilAnswered(() => request("POST", act.path, act.body), this.onTrouble);
      forget();
      return answer;
    } catch (error) {
      if (!(error instanceof Refused && error.status === 401)) forget();
      throw error;
    }
  }
}
