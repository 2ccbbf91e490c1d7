//! What teams need, in the browser: guidelines, suggestions, flags, review, gold and alerts.

mod flags;
mod guidelines;
mod review;
mod suggestions;

use serde_json::json;

use super::app::App;
use super::driver::{Browser, key};
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
    assert_eq!(browser.script(CUT_OFF), json!([]), "{name}: wider than what it is in");
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

/// Parts of a page that must show all of their width, and do not.
const CUT_OFF: &str = "
    const parts = [...document.querySelectorAll('#answer, dialog[open], .actions, .facts, .given')];
    return parts.filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
        .map((e) => e.id + ' ' + e.className + ' ' + e.scrollWidth + ' > ' + e.clientWidth)";

/// Waits until the page of annotators shows a task, and returns its item.
fn item(browser: &Browser) -> String {
    browser.find("body[data-view=task]:not([data-busy])");
    let item = browser.find("#workspace").property("dataset")["item"].clone();
    item.as_str().unwrap().to_owned()
}

/// Waits until the page of annotators shows something else than this item.
fn until_gone(browser: &Browser, item: &str) {
    let script = "return document.body.dataset.view + ' ' + workspace.dataset.item";
    let same = json!(format!("task {item}"));
    browser.until("the next task", || (browser.script(script) != same).then_some(()));
}

/// Writes a caption in the place of what is there, submits it, and waits for the next task.
fn answer(browser: &Browser, caption: &str) {
    let item = item(browser);
    browser.chord(key::CONTROL, 'a');
    browser.type_text(caption);
    browser.keys([key::ENTER]);
    until_gone(browser, &item);
}
