//! A model on text features trains on captions typed in a browser.

use super::app::{App, Process};
use super::driver::Browser;
use super::images::Annotator;
use crate::datasets::tree;
use crate::scenario::{encoded, people};

#[test]
fn heads_learn_what_people_write_in_the_browser() {
    let lab = encoded::lab();
    let words = format!("{} --rounds 2 --out run --wait", encoded::RUN);
    let mut run = Process::start(&lab.path(""), &words, "run.log");
    run.until("the run waits", |_| lab.path("run/queue.jsonl").exists().then_some(()));
    // A complete round closes at once.
    let app = App::start(&lab.path(""), "run --grace 0", "Ann");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let mut ann = Annotator::at(&browser);
    for round in [1, 2] {
        browser.until_text("#round", &format!("Round {round}"));
        for number in 0..5 {
            ann.answer(&format!("In round {round} a patient heron counts {number} lanterns."));
        }
    }
    run.until("the run is done", |said| said.contains("done: run").then_some(()));
    drop(app);

    let captions = people::captions(&lab, "run/dataset");
    assert_eq!(ann.said.len(), 10, "ten items, each asked about once");
    for (item, said) in &ann.said {
        assert_eq!(captions[item], [serde_json::json!(said)], "{item}");
    }
    assert_eq!(lab.rounds("run").len(), 3);
    let before = tree(&lab.path("run"));
    lab.succeeds("run run --resume");
    assert!(tree(&lab.path("run")) == before, "a resume changed a byte");
}
