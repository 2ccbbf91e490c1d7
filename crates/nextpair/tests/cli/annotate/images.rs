//! Captions for images: an annotator and a lead in two browsers, beside a run that continues.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::app::{App, Process, picture};
use super::driver::{Browser, key, until};
use crate::scenario::people;

const BATCH: usize = 10;
/// Unlike any caption of the scenes, so that the app hints at no confusion.
const ANIMALS: [&str; BATCH] =
    ["walrus", "heron", "beetle", "otter", "lynx", "salmon", "badger", "magpie", "tortoise", "yak"];

/// A page of tasks, used with the keyboard only.
pub(crate) struct Annotator<'a> {
    browser: &'a Browser,
    /// The last answer to every item.
    pub(crate) said: HashMap<String, String>,
}

impl<'a> Annotator<'a> {
    pub(crate) fn at(browser: &'a Browser) -> Self {
        Annotator { browser, said: HashMap::new() }
    }

    /// Returns the item on the page.
    fn item(&self) -> String {
        self.browser.find("body[data-view=task]:not([data-busy])");
        let item = self.browser.find("#workspace").property("dataset");
        item["item"].as_str().unwrap().to_owned()
    }

    /// Replaces the content of the caption box, which has the focus by default.
    fn write(&self, caption: &str) {
        self.browser.chord(key::CONTROL, 'a');
        self.browser.keys([key::BACKSPACE]);
        self.browser.type_text(caption);
        assert_eq!(self.browser.find("#caption-1").property("value"), json!(caption));
    }

    /// Writes a caption and submits it.
    fn submit(&mut self, caption: &str) {
        let item = self.item();
        self.write(caption);
        self.browser.keys([key::ENTER]);
        self.said.insert(item, caption.to_owned());
    }

    /// Waits until the page shows another task than `item`, or none.
    fn until_gone(&self, item: &str) {
        let script = "return document.body.dataset.view + ' ' + workspace.dataset.item";
        let same = json!(format!("task {item}"));
        let gone = || (self.browser.script(script) != same).then_some(());
        self.browser.until("the next task is shown", gone);
    }

    pub(crate) fn answer(&mut self, caption: &str) {
        let item = self.item();
        self.submit(caption);
        self.until_gone(&item);
    }

    fn until_done(&self) {
        self.browser.find("body[data-view=none] #state[data-none=done]");
    }

    /// Opens the reasons and their images, and takes a screenshot.
    fn look_at_reasons(&self) {
        let browser = self.browser;
        browser.until_shown("#why", true);
        browser
            .script("why.open = true; why.querySelectorAll('details').forEach(d => d.open = true)");
        let loaded = "const all = [...document.querySelectorAll('#why-list img')]; \
                      return all.length > 0 && all.every(i => i.complete && i.naturalWidth > 0)";
        browser.until("the images of the reasons are there", || {
            (browser.script(loaded) == json!(true)).then_some(())
        });
        browser.screenshot_of_all(&picture("caption-why"));
        browser.script("why.querySelectorAll('details').forEach(d => d.open = false)");
    }

    /// Types the caption that the item would be confused with, and waits for the hint.
    fn be_hinted(&self) {
        let confused = self.browser.find("#why-list .why-caption").text();
        self.write(&confused);
        self.browser.find("#hints li");
        self.browser.screenshot(&picture("caption-hint"));
    }

    fn call_off_a_skip(&self) {
        self.browser.chord(key::ALT, 's');
        self.browser.until_shown("#skip-dialog", true);
        self.browser.keys(['2']);
        self.browser.screenshot(&picture("caption-skip"));
        self.browser.keys([key::ESCAPE]);
        self.browser.until_shown("#skip-dialog", false);
    }

    /// Submits an answer while offline. The page sends it after reconnecting.
    fn answer_offline(&mut self, caption: &str) {
        let item = self.item();
        self.browser.offline(true);
        self.submit(caption);
        self.browser.until_text("#connection", "kept in this browser and will be sent");
        self.browser.screenshot(&picture("caption-offline"));
        assert_eq!(self.browser.find("#workspace").property("dataset")["item"], json!(item));
        self.browser.offline(false);
        self.until_gone(&item);
        self.browser.until_shown("#connection", false);
    }

    /// Undoes the last answer and gives another one.
    fn undo(&mut self, caption: &str) {
        self.browser.chord(key::ALT, 'u');
        self.browser.until_text("#message", "Taken back");
        let item = self.item();
        let before = self.browser.find("#caption-1").property("value");
        assert_eq!(before, json!(self.said[&item]), "what was said is there to be changed");
        self.answer(caption);
    }
}

/// Takes screenshots of a page in light and dark, on a desktop and on a phone.
pub(super) fn show_everywhere(browser: &Browser, name: &str, all: bool) {
    for (size, phone) in [("desktop", false), ("phone", true)] {
        if phone {
            browser.phone()
        } else {
            browser.desktop()
        }
        for (colours, dark) in [("light", false), ("dark", true)] {
            browser.dark(dark);
            let path = picture(&format!("{name}-{size}-{colours}"));
            if all { browser.screenshot_of_all(&path) } else { browser.screenshot(&path) }
        }
        let wide = browser.script(
            "const root = document.documentElement; return root.scrollWidth - root.clientWidth",
        );
        assert!(wide.as_i64().unwrap() <= 0, "{name} is wider than a {size}: {wide}");
    }
    browser.desktop();
    browser.dark(false);
}

/// Asserts that the console has no errors and no violations of the content security policy.
pub(super) fn assert_quiet(browser: &Browser, connection_was_lost: bool) {
    for (level, message) in browser.console() {
        let lost = connection_was_lost && message.contains("net::ERR_INTERNET_DISCONNECTED");
        assert!(lost || level != "SEVERE", "{level}: {message}");
        assert!(!message.contains("Content Security Policy"), "{message}");
    }
}

/// The lead edits one answer and returns another one to the annotator.
fn edit_one_and_return_another(lead: &Browser, said: &mut HashMap<String, String>) -> String {
    let row = |words: &str| {
        let rows = "#answer-rows > li";
        let found = || lead.all(rows).into_iter().find(|row| row.text().contains(words));
        let row = lead.until(&format!("an answer says {words}"), found);
        format!("{rows}[data-answer=\"{}\"]", row.property("dataset")["answer"].as_str().unwrap())
    };
    let edited = row(ANIMALS[0]);
    lead.find(&format!("{edited} .edit")).click();
    lead.find(&format!("{edited} textarea"));
    lead.chord(key::CONTROL, 'a');
    let better = "A walrus, said better by the lead.";
    lead.type_text(better);
    lead.find(&format!("{edited} .save")).click();
    row(better);
    let item = said.iter().find(|(_, text)| text.contains(ANIMALS[0])).unwrap().0.clone();
    said.insert(item, better.to_owned());

    let returned = row(ANIMALS[1]);
    lead.find(&format!("{returned} .return")).click();
    lead.until_shown("#return-dialog", true);
    lead.find("#return-note").type_text("Which bird is it?");
    lead.screenshot(&picture("lead-return"));
    lead.find("#return-send").click();
    said.iter().find(|(_, text)| text.contains(ANIMALS[1])).unwrap().0.clone()
}

#[test]
fn people_caption_in_the_browser_and_the_run_goes_on() {
    let lab = people::lab();
    let words =
        "run e.toml --annotator human --strategies hard-negative --budget 10 --out run --wait";
    let mut run = Process::start(&lab.path(""), words, "run.log");
    run.until("the run waits", |_| lab.path("run/queue.jsonl").exists().then_some(()));
    let app = App::start(&lab.path(""), "run --manual-close --price 0.2", "Ann");

    let lead = Browser::open();
    lead.go(app.link("lead"));
    assert_eq!(lead.url(), format!("{}/lead", app.address));
    lead.until_text("#fact-done", "0 of 10");

    let browser = Browser::open();
    browser.go(&app.address);
    browser.find("body[data-view=signed-out]");
    show_everywhere(&browser, "sign-in", false);
    // Drop the console message about the refused sign-in.
    browser.console();
    browser.go(app.link("Ann"));
    assert_eq!(browser.url(), format!("{}/", app.address));
    let mut ann = Annotator::at(&browser);
    ann.item();
    browser.until("the image is there", || {
        (browser.script("return picture.naturalWidth > 0") == json!(true)).then_some(())
    });
    show_everywhere(&browser, "caption", false);
    ann.look_at_reasons();
    ann.be_hinted();
    assert_quiet(&browser, false);
    for (number, animal) in ANIMALS.iter().enumerate() {
        let caption = format!("Through heavy fog a patient {animal} watches seven lanterns.");
        match number {
            5 => ann.answer_offline(&caption),
            _ => ann.answer(&caption),
        }
        if number == 2 {
            ann.call_off_a_skip();
        }
    }
    ann.until_done();
    show_everywhere(&browser, "done", false);
    ann.undo("Nobody expected this yak on the frozen harbour.");
    ann.until_done();
    assert_eq!(ann.said.len(), BATCH, "ten items, each asked about once");

    lead.until_text("#fact-done", "10 of 10");
    lead.until_text("#fact-cost", "2.00");
    show_everywhere(&lead, "lead", true);
    let returned = edit_one_and_return_another(&lead, &mut ann.said);
    browser.until_text("#note", "Which bird is it?");
    assert_eq!(ann.item(), returned);
    browser.screenshot(&picture("caption-returned"));
    ann.answer("A grey heron, and no other bird, watches seven lanterns.");
    ann.until_done();

    lead.until_text("#fact-done", "10 of 10");
    lead.find("#close").click();
    lead.until_text("#confirm-dialog", "Handed over: 10 answered items and 0 refused items.");
    lead.screenshot(&picture("lead-close"));
    lead.find("#confirm-yes").click();
    let rounds = || lab.path("run/rounds.jsonl").exists().then(|| lab.rounds("run").len());
    run.until("the run learned from round 1", |_| (rounds()? > 1).then_some(()));
    browser.until_text("#round", "Round 2");
    lead.until_text("#round", "Round 2");
    assert_quiet(&browser, true);
    assert_quiet(&lead, false);

    let (captions, picked) = (
        people::captions(&lab, "run/dataset"),
        lab.ids("run/seed-0/hard-negative/picks-1.jsonl", "id"),
    );
    assert_eq!(picked.len(), BATCH);
    for item in &picked {
        let expected: &[Value] = &[json!(ann.said[item])];
        assert_eq!(captions[item], expected, "{item}");
    }
    let round = &lab.rounds("run")[1];
    assert_eq!((&round["round"], &round["batch"]["skipped"]), (&json!(1), &json!(0)));

    browser.find("#menu summary").click();
    browser.find("#sign-out").click();
    until("she is signed out", || browser.all("body[data-view=signed-out]").pop());
}
