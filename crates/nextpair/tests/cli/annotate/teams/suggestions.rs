//! Suggestions: marked, and submitted only when accepted or changed.

use serde_json::json;

use super::super::driver::{Browser, key};
use super::{Team, answer, assert_quiet, item, look, until_gone};
use crate::world::json_lines;

const SUGGESTED: &str = "Several shapes on a pale background.";

#[test]
fn suggestions_are_accepted_or_changed_in_the_browser() {
    let team = Team::new(3);
    let line = |at: usize| {
        json!({ "file_name": format!("scene-{at:06}.png"), "generated_text": SUGGESTED })
            .to_string()
    };
    team.write("captioner.jsonl", &([line(1), line(2)].join("\n") + "\n"));
    let app = team.serve("--suggestions captioner.jsonl --grace 0");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let first = item(&browser);
    browser.until_shown("#suggestion", true);
    assert_eq!(browser.find("#caption-1").property("value"), json!(SUGGESTED));
    look(&browser, "teams-suggestion", false);
    // Enter, the habit of a hundred tasks, does not pass the words of a program for somebody's.
    std::thread::sleep(std::time::Duration::from_millis(600));
    browser.keys([key::ENTER]);
    browser.until_text("#message", "This is the suggestion");
    assert_eq!(item(&browser), first);
    browser.chord(key::ALT, 'a');
    until_gone(&browser, &first);

    let second = item(&browser);
    browser.until_shown("#suggestion", true);
    browser.chord(key::CONTROL, 'a');
    browser.type_text("Nine shapes dance on a pale background.");
    browser.until_shown("#suggestion", false);
    browser.keys([key::ENTER]);
    until_gone(&browser, &second);
    item(&browser);
    browser.until_shown("#suggestion", false);

    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.until_text("#answer-rows", "suggestion accepted");
    lead.until_text("#answer-rows", "suggestion edited");
    answer(&browser, "A patient walrus watches seven lanterns.");
    let book = team.lab.path("queue.answers.jsonl");
    let answers = browser.until("the answers are handed over", || {
        let lines = json_lines(&std::fs::read_to_string(&book).ok()?);
        (lines.len() == 3).then_some(lines)
    });
    let told = answers.iter().map(|answer| answer["provenance"].clone()).collect::<Vec<_>>();
    assert_eq!(told, [json!("accepted"), json!("edited"), json!(null)]);
    assert_quiet(&browser);
    assert_quiet(&lead);

    // Who comes late is told that it is over.
    browser.until_text("#state-title", "The work is finished");
    browser.until_text("#state-text", "3 of 3 done. 3 answers of yours are in it.");
    look(&browser, "teams-finished", false);
    lead.until_text("#closes", "No round comes after it.");
    drop(app);
    let app = team.serve("--database sqlite:another.db");
    browser.go(app.link("Ann"));
    browser.until_text("#state-title", "The work is finished");
    browser.until_text("#state-text", "Everything was answered before.");
}
