//! Images for texts: search, choose and submit by keyboard.

use serde_json::json;

use super::app::{App, picture};
use super::driver::{Browser, key};
use crate::scenario::Lab;
use crate::world::json_lines;

#[test]
fn texts_are_given_images_in_the_browser() {
    let lab = Lab::new(80);
    let words = "run e.toml --pool text --strategies hard-negative --rounds 1 --budget 3";
    lab.succeeds(&format!("{words} --annotator human --out run"));
    let app = App::start(&lab.path(""), "run --manual-close", "Ann");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let mut chosen = Vec::new();
    for task in 0..3 {
        browser.find("body[data-view=task]:not([data-busy])");
        let item = browser.find("#workspace").property("dataset")["item"].clone();
        browser.find("#candidates .candidate");
        if task == 0 {
            browser.until("images are there", || {
                let script = "return [...document.querySelectorAll('#candidates img')].slice(0, 4)\
                              .every(i => i.complete && i.naturalWidth > 0)";
                (browser.script(script) == json!(true)).then_some(())
            });
            browser.screenshot(&picture("texts-desktop-light"));
            browser.dark(true);
            browser.screenshot(&picture("texts-desktop-dark"));
            browser.phone();
            browser.screenshot_of_all(&picture("texts-phone-dark"));
            browser.dark(false);
            browser.desktop();
        }
        // Move from the search to the second image. The first press chooses it, the second one
        // submits.
        browser.keys([key::ARROW_DOWN, key::ARROW_RIGHT, key::ENTER]);
        let image = browser.find("#candidates [aria-checked=true]").property("dataset");
        if task == 0 {
            browser.screenshot(&picture("texts-chosen"));
        }
        browser.keys([key::ENTER]);
        let gone = format!(
            "return document.body.dataset.view === 'task' \
                            && workspace.dataset.item === {item}"
        );
        browser.until("the next task", || (browser.script(&gone) == json!(false)).then_some(()));
        chosen.push((item, image["item"].clone()));
    }
    // The lead chooses another image for the last one.
    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.find("#answer-rows > li .edit").click();
    lead.until_shown("#image-dialog", true);
    let other =
        format!("#candidates .candidate:not([aria-checked=true]):not([data-item={}])", chosen[2].1);
    lead.find(&other);
    lead.find("#candidates [aria-checked=true]");
    super::images::show_everywhere(&lead, "texts-lead-edit", false);
    let better = lead.find(&other);
    let image = better.property("dataset")["item"].clone();
    better.click();
    lead.find("#image-save").click();
    lead.until_text("#answer-rows", "edited by lead");
    chosen[2].1 = image;
    lead.find("#close").click();
    lead.find("#confirm-yes").click();
    super::images::assert_quiet(&lead, false);

    let book = lab.path("run/answers.jsonl");
    let answers = browser.until("the answers are handed over", || {
        let lines = json_lines(&std::fs::read_to_string(&book).ok()?);
        (lines.len() == 3).then_some(lines)
    });
    for (item, image) in chosen {
        let given = |answer: &&serde_json::Value| answer["id"] == item && answer["image"] == image;
        assert!(answers.iter().any(|answer| given(&answer)), "{item} {image}: {answers:?}");
    }
    let console = browser.console();
    assert!(console.iter().all(|(level, _)| level != "SEVERE"), "{console:?}");
}
