//! What teams need, in the browser: guidelines.

mod guidelines;

use serde_json::json;

use super::app::{App, picture};
use super::driver::Browser;
use crate::scenario::Lab;

/// A dataset with a queue of a few of its items.
struct Team {
    lab: Lab,
}

impl Team {
    fn new(tasks: usize) -> Self {
        let lab = Lab::new(80);
        let task = |at: usize| {
            let score = 1.0 / at as f64;
            json!({ "rank": at, "id": format!("scene-{at:06}"), "score": score, "hits": 1 })
        };
        let lines: Vec<String> = (1..=tasks).map(|at| task(at).to_string()).collect();
        std::fs::write(lab.path("queue.jsonl"), lines.join("\n") + "\n").unwrap();
        Team { lab }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.lab.path(name), text).unwrap();
    }

    /// Serves the queue, with these flags.
    fn serve(&self, flags: &str) -> App {
        let words = format!("queue.jsonl --dataset ds {flags}");
        App::start(&self.lab.path(""), &words, "Ann")
    }
}

/// Takes screenshots in light and dark, on a desktop and on a phone, and asserts that nothing is
/// wider than the window and that everything has a name.
fn look(browser: &Browser, name: &str, all: bool) {
    super::images::show_everywhere(browser, name, all);
    assert_eq!(browser.script(NAMELESS), json!([]), "{name}: controls without a name");
}

/// Asserts that the console has no errors.
fn assert_quiet(browser: &Browser) {
    super::images::assert_quiet(browser, false);
}

/// Visible controls without a name for screen readers, and images without a text.
const NAMELESS: &str = "
    const named = (e) => (e.getAttribute('aria-label') ?? '') + (e.title ?? '') + e.innerText
        + [...(e.labels ?? [])].map((l) => l.innerText).join('')
        + (e.getAttribute('aria-labelledby') ?? '').split(' ')
            .map((id) => document.getElementById(id)?.innerText ?? '').join('');
    const controls = [...document.querySelectorAll('button, a, input, textarea, select, summary')];
    const images = [...document.querySelectorAll('img:not([alt])')];
    return [...controls.filter((e) => e.checkVisibility() && named(e).trim() === ''), ...images]
        .map((e) => e.outerHTML)";

/// Waits until the page of annotators shows a task, and returns its item.
fn item(browser: &Browser) -> String {
    browser.find("body[data-view=task]:not([data-busy])");
    let item = browser.find("#workspace").property("dataset")["item"].clone();
    item.as_str().unwrap().to_owned()
}

/// The path of a screenshot of this page.
fn shot(name: &str) -> std::path::PathBuf {
    picture(&format!("teams-{name}"))
}
