//! Flags: an item is put aside with a note, and comes back with the word of the lead.

use super::super::driver::{Browser, key};
use super::{Team, answer, assert_quiet, item, look, until_gone};

#[test]
fn a_flag_goes_to_the_lead_and_comes_back() {
    let team = Team::new(3);
    let app = team.serve("--manual-close");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let flagged = item(&browser);
    browser.type_text("A star, or");
    browser.chord(key::ALT, 'l');
    browser.until_shown("#flag-dialog", true);
    browser.keys([key::ENTER]);
    browser.until_text("#flag-error", "Write a word to the lead.");
    browser.type_text("Is this a star or a flower?");
    look(&browser, "teams-flag", false);
    browser.keys([key::ENTER]);
    until_gone(&browser, &flagged);
    browser.until_text("#message", "Flagged.");
    answer(&browser, "A patient walrus watches seven lanterns.");
    answer(&browser, "Two herons cross a frozen harbour at dawn.");
    browser.find("body[data-view=none] #state[data-none=waiting]");

    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.until_text("#flags-count", "1 waiting");
    lead.until_text("#flag-rows", "Is this a star or a flower?");
    look(&lead, "teams-flag-lead", true);
    lead.find("#flag-rows .resolve").click();
    lead.until_shown("#resolve-dialog", true);
    lead.type_text("A star: it has five points.");
    lead.find("#resolve-send").click();
    lead.until_text("#flags-count", "all resolved");

    // It comes back by itself, with what was typed.
    browser.until_text("#reply-text", "A star: it has five points.");
    assert_eq!(item(&browser), flagged);
    let typed = browser.find("#caption-1").property("value");
    assert_eq!(typed, serde_json::json!("A star, or"));
    look(&browser, "teams-reply", false);
    answer(&browser, "A pink star with five points above the sea.");
    browser.find("body[data-view=none] #state[data-none=done]");
    assert_quiet(&browser);
    assert_quiet(&lead);
}
