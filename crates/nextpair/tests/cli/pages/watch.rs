//! The page of an experiment that runs: it takes new rounds in, and the reader stays where he was.

use std::fs::{self, File};

use serde_json::{Value, json};

use super::{experiment, look_at, succeeds, texts};
use crate::annotate::driver::Browser;
use crate::watch::{cut_journal, watch};

/// Three seeds, each with a round 0 and two rounds of three strategies.
const TRAININGS: usize = 21;

#[test]
fn a_page_follows_the_experiment_and_keeps_the_readers_place() {
    let folder = experiment(2);
    succeeds(folder.path(), "run e.toml --out run --jobs 1");
    let journal = folder.path().join("run/rounds.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    cut_journal(&whole, &journal, 0);
    // As if it ran.
    let lock = File::open(folder.path().join("run/.lock")).unwrap();
    lock.lock().unwrap();
    let (process, address) = watch(folder.path(), "run --currency EUR");
    let browser = Browser::open();
    browser.go(&format!("http://{address}/"));
    browser.desktop();

    // Nothing is finished yet.
    browser.until_text("#live-now", &format!("0 of {TRAININGS} trainings done"));
    browser.until_text("#tried", "What was tried");
    look_at(&browser, "watch-nothing");

    // Rounds come in.
    cut_journal(&whole, &journal, 15);
    browser.until_text("#live-now", &format!("15 of {TRAININGS} trainings done"));
    browser.until_shown("#chart-log-rank .legend button", true);
    browser.until_shown("#gallery .pick", true);
    let version = browser.script("return document.getElementById('live').dataset.version");
    assert_ne!(version, json!("1"), "{version}");
    look_at(&browser, "watch");

    // The reader sorts, hides, opens, filters, scrolls, and has the focus somewhere.
    browser.find("[data-table=strategies] thead th:nth-child(1) button").click();
    browser.script("document.getElementById('in-words').open = true");
    browser.find("#chart-log-rank .legend li:nth-child(2) button").click();
    browser.find("#gallery-anchor").type_text("red");
    browser.script(
        "document.querySelector('#gallery-strategy').selectedIndex = 2; \
         document.querySelector('#gallery-strategy').dispatchEvent(new Event('change')); \
         document.querySelector('#chart-log-rank .legend li:nth-child(2) button').focus({ preventScroll: true }); \
         document.querySelector('#recall').scrollIntoView({ behavior: 'instant' })",
    );
    let state = "return [document.querySelector('[data-table=strategies] thead th').ariaSort, \
                 document.getElementById('in-words').open, \
                 document.querySelector('#chart-log-rank .drawn[data-series=\"1\"]').classList.contains('off'), \
                 document.querySelector('#gallery-anchor').value, \
                 document.querySelector('#gallery-strategy').value, \
                 document.activeElement.id]";
    // Browsers scroll by whole pixels, and what is above may end between two.
    let top = || {
        let top = "return document.getElementById('recall').getBoundingClientRect().top";
        browser.script(top).as_f64().unwrap()
    };
    let (before, top_before) = (browser.script(state), top());
    assert_eq!(before[0], json!("ascending"));
    assert_eq!((&before[1], &before[2]), (&json!(true), &json!(true)));
    let second = browser.script("document.querySelector('#recall').dataset.seen = 'yes'; return 1");
    assert_eq!(second, json!(1));

    fs::write(&journal, &whole).unwrap();
    browser.until_text("#live-now", &format!("Finished: all {TRAININGS} trainings are done."));
    // The last page is there: the section was made anew.
    browser.until("the new rounds are on the page", || {
        let seen = browser.script("return document.querySelector('#recall').dataset.seen ?? null");
        (seen == Value::Null).then_some(())
    });
    assert_eq!(browser.script(state), before);
    let moved = (top() - top_before).abs();
    assert!(moved <= 1.0, "the page moved by {moved} pixels");
    assert_eq!(
        texts(&browser, "#live-said"),
        [format!("Finished: all {TRAININGS} trainings are done.")],
        "screen readers hear of the end"
    );
    assert!(!texts(&browser, "main").remove(0).contains("Not finished."));
    browser.script("scrollTo({ top: 0, behavior: 'instant' })");
    look_at(&browser, "watch-finished");

    // Opened now, it has nothing to ask for.
    browser.go(&format!("http://{address}/"));
    browser.until_shown("#live[data-last=true]", true);
    drop(process);
    drop(lock);
}
