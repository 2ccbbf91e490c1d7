//! A lead closes a round before everything is answered and reviewed.

use serde_json::{Value, json};

use super::app::{App, picture};
use super::driver::Browser;
use crate::scenario::people;
use crate::world::json_lines;

/// More than `--usable` needs to begin with.
const UNANSWERED: usize = 12;

/// Sends a request of somebody, and returns the answer.
fn ask(app: &App, who: &str, path: &str, body: Value) -> Value {
    let token = app.link(who).rsplit_once('/').unwrap().1;
    let request = ureq::post(format!("{}{path}", app.address));
    let request = request.header("Authorization", format!("Bearer {token}"));
    let mut answer = request.send_json(body).unwrap_or_else(|e| panic!("{path}: {e}"));
    answer.body_mut().read_json().unwrap()
}

/// Answers the next task, and returns the number of the answer and the item.
fn say(app: &App, said: Value) -> (u64, String) {
    let item = ask(app, "Ann", "/api/next", json!({}))["task"]["item"].as_str().unwrap().to_owned();
    let body = json!({ "key": format!("key-of-{item}"), "item": item, "said": said });
    (ask(app, "Ann", "/api/answers", body)["answer"].as_u64().unwrap(), item)
}

#[test]
fn what_nobody_answered_is_in_the_pool_again_and_teaches_nothing() {
    let lab = people::lab();
    lab.succeeds("train ds --model vse++ --dim 8 --epochs 1 --validate-last 0 --out model");
    let bare = people::captions(&lab, "ds").values().filter(|own| own.is_empty()).count();
    let select = |dataset: &str, budget: usize, out: &str, flags: &str| {
        let words = format!("select --model model {dataset} --pool-side image --strategy random");
        let words = format!("{words} --budget {budget} --out {out} --json {flags}");
        let report: Value = serde_json::from_str(&lab.succeeds(&words).stdout).unwrap();
        (lab.ids(out, "id"), report)
    };
    let (picked, _) = select("ds", 3 + UNANSWERED, "picks.jsonl", "");
    let words = "picks.jsonl --dataset ds --review 1 --reviewer Eve";
    let mut app = App::start(&lab.path(""), words, "Ann");
    let (star, captioned) = say(&app, json!({ "captions": ["A walrus on ice ."] }));
    let (waits, unreviewed) = say(&app, json!({ "captions": ["A heron in fog ."] }));
    let (dark, refused) = say(&app, json!({ "skip": "too dark" }));
    let accept = |app: &App, answer: u64| {
        let body = json!({ "key": format!("accept-{answer}") });
        ask(app, "Eve", &format!("/api/answers/{answer}/accept"), body);
    };
    accept(&app, star);
    accept(&app, dark);

    // The lead is told what happens to which items, before and after.
    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.until_text("#fact-review", "1 waiting");
    lead.find("#close").click();
    for line in [
        "Handed over: 1 answered item and 1 refused item.",
        "Back to the pool: 12 items without an answer. They can be picked again.",
        "Kept: 1 item whose answers wait for review.",
    ] {
        lead.until_text("#confirm-dialog", line);
    }
    lead.screenshot(&picture("lead-close-early"));
    lead.find("#confirm-yes").click();
    lead.until_text("#closes", "1 answered, 1 refused, 12 back in the pool, 1 kept for review");
    lead.screenshot(&picture("lead-closed-early"));
    super::images::assert_quiet(&lead, false);
    app.until("the answers are handed over", |said| {
        said.contains("handed over: 1 answered, 1 refused, 12 back in the pool, 1 kept")
            .then_some(())
    });
    let handed_over = || json_lines(&lab.read("picks.answers.jsonl"));
    let ids = || handed_over().iter().map(|answer| answer["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(), [json!(captioned), json!(refused)], "nobody said anything of the others");

    lab.succeeds("add ds picks.answers.jsonl --out new");
    let (pool, _) = select("new", bare - 2, "all.jsonl", "");
    assert!(!pool.contains(&captioned) && !pool.contains(&refused));
    assert!(picked.iter().all(|id| [&captioned, &refused].contains(&id) || pool.contains(id)));
    for usable in ["--usable", "--usable picks.answers.jsonl"] {
        let (_, report) = select("new", 4, "few.jsonl", usable);
        assert_eq!(report["left_out"], 0, "one refusal teaches nothing: {report}");
    }

    // The review is finished, and its answer follows.
    accept(&app, waits);
    app.until("the rest is handed over", |said| {
        said.contains("handed over: 2 answered, 1 refused, 12 back in the pool").then_some(())
    });
    assert!(ids().contains(&json!(unreviewed)));
    lab.succeeds("add new picks.answers.jsonl --out newer");
    assert_eq!(people::captions(&lab, "newer")[&unreviewed], [json!("A heron in fog .")]);
}
