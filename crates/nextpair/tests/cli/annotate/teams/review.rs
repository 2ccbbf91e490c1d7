//! Review in the browser, gold among the tasks, and alerts on the lead's page.

use serde_json::json;

use super::super::driver::{Browser, key};
use super::{Team, answer, assert_quiet, look};
use crate::world::json_lines;

/// Waits until the page of reviewers shows another answer than this one, and returns its number.
fn shown(browser: &Browser, before: &str, what: &str) -> String {
    browser.until(what, || {
        browser.all("body[data-view=review]:not([data-busy])").pop()?;
        let shown = browser.find("#workspace").property("dataset")["answer"].clone();
        shown.as_str().filter(|shown| *shown != before).map(str::to_owned)
    })
}

#[test]
fn answers_are_reviewed_in_the_browser() {
    let team = Team::new(4);
    team.write("gold.csv", "id,caption\nscene-000050,Many small shapes lie about .\n");
    let app = team.serve("--review 1 --reviewer Eve --gold gold.csv --gold-share 0.25 --grace 0");
    let ann = Browser::open();
    ann.go(app.link("Ann"));
    // The same words for everything: five tasks, of which one is gold.
    for number in 0..5 {
        answer(&ann, &format!("A patient walrus watches seven lanterns, {number} of them red."));
    }
    ann.find("body[data-view=none] #state[data-none=done]");

    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.until_text("#fact-review", "4 waiting");
    lead.until_text("#fact-gold", "1 of them gold");
    lead.until_text("#alert-rows", "nearly the same");
    lead.until_text("#alert-rows", "too fast");
    lead.until_text("#quality-rows", "Ann");
    look(&lead, "teams-quality", true);
    let before = lead.find("#alerts-count").text();
    lead.find("#alert-rows .dismiss").click();
    lead.until("one alert less", || (lead.find("#alerts-count").text() != before).then_some(()));

    let eve = Browser::open();
    eve.go(app.link("Eve"));
    assert_eq!(eve.url(), format!("{}/review", app.address));
    let first = shown(&eve, "", "the first answer is shown");
    eve.until_text("#waiting", "4 answers to review");
    eve.until("the image is there", || {
        (eve.script("return picture.naturalWidth > 0") == json!(true)).then_some(())
    });
    look(&eve, "teams-review", false);
    // A double press must not accept the next answer unseen.
    std::thread::sleep(std::time::Duration::from_millis(600));
    eve.keys([key::ENTER]);
    let second = shown(&eve, &first, "the second answer is shown");
    eve.until_text("#message", "Accepted.");
    eve.chord(key::CONTROL, 'a');
    eve.type_text("Said better by a reviewer.");
    eve.until_text("#submit", "Save the correction");
    eve.screenshot(&super::super::app::picture("teams-review-corrected"));
    eve.keys([key::ENTER]);
    let third = shown(&eve, &second, "the third answer is shown");
    eve.chord(key::ALT, 'r');
    eve.until_shown("#return-dialog", true);
    eve.type_text("How many are red?");
    eve.keys([key::ENTER]);
    let fourth = shown(&eve, &third, "the fourth answer is shown");
    eve.until_text("#waiting", "1 answer to review");
    std::thread::sleep(std::time::Duration::from_millis(600));
    eve.keys([key::ENTER]);

    ann.until_text("#note", "How many are red?");
    answer(&ann, "A patient walrus watches seven lanterns, two of them red.");
    shown(&eve, &fourth, "the new answer is shown");
    std::thread::sleep(std::time::Duration::from_millis(600));
    eve.keys([key::ENTER]);
    eve.until_text("#state-title", "Nothing to review");

    let book = team.lab.path("queue.answers.jsonl");
    let answers = eve.until("the answers are handed over", || {
        let lines = json_lines(&std::fs::read_to_string(&book).ok()?);
        (lines.len() == 4).then_some(lines)
    });
    let said = |words: &str| {
        answers.iter().any(|answer| answer["caption"].as_str().unwrap().contains(words))
    };
    assert!(said("Said better by a reviewer.") && said("two of them red"), "{answers:?}");
    assert!(answers.iter().all(|answer| answer["id"] != "scene-000050"), "{answers:?}");
    lead.until_text("#round-state", "closed");
    lead.until_text("#quality-rows", "0 % of 1");
    for browser in [&ann, &lead, &eve] {
        assert_quiet(browser);
    }
}
