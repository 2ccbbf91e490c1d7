//! Images get captions: an annotator and a lead at work in two browsers, and a run that goes on.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::app::{App, Process, picture};
use super::driver::{Browser, key, until};
use crate::scenario::people;

const BATCH: usize = 10;
/// Nothing like what scenes are called, so that nothing hints at a confusion.
const ANIMALS: [&str; BATCH] =
    ["walrus", "heron", "beetle", "otter", "lynx", "salmon", "badger", "magpie", "tortoise", "yak"];

/// A page that shows tasks, in the hands of somebody who has a keyboard and no mouse.
pub(super) struct Annotator<'a> {
    browser: &'a Browser,
    /// What was said last about every item.
    pub(super) said: HashMap<String, String>,
}

impl<'a> Annotator<'a> {
    pub(super) fn at(browser: &'a Browser) -> Self {
        Annotator { browser, said: HashMap::new() }
    }

    /// The item that is asked about.
    fn item(&self) -> String {
        self.browser.find("body[data-view=task]:not([data-busy])");
        let item = self.browser.find("#workspace").property("dataset");
        item["item"].as_str().unwrap().to_owned()
    }

    /// Puts a caption in place of what the box holds. The box has the focus by itself.
    fn write(&self, caption: &str) {
        self.browser.chord(key::CONTROL, 'a');
        self.browser.keys([key::BACKSPACE]);
        self.browser.type_text(caption);
        assert_eq!(self.browser.find("#caption-1").property("value"), json!(caption));
    }

    /// Writes a caption and sends it off.
    fn submit(&mut self, caption: &str) {
        let item = self.item();
        self.write(caption);
        self.browser.keys([key::ENTER]);
        self.said.insert(item, caption.to_owned());
    }

    /// Waits until another task or none is shown than that of an item.
    fn until_gone(&self, item: &str) {
        let script = "return document.body.dataset.view + ' ' + workspace.dataset.item";
        let same = json!(format!("task {item}"));
        let gone = || (self.browser.script(script) != same).then_some(());
        self.browser.until("the next task is shown", gone);
    }

    pub(super) fn answer(&mut self, caption: &str) {
        let item = self.item();
        self.submit(caption);
        self.until_gone(&item);
    }

    fn until_done(&self) {
        self.browser.find("body[data-view=none] #state[data-none=done]");
    }

    /// What an item looks like when somebody opens the reasons and their images.
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

    /// Says word for word what the item would be confused with, and is told so.
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

    /// Sends an answer without a connection, and gets it back.
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

    /// Takes the last answer back and says something else.
    fn undo(&mut self, caption: &str) {
        self.browser.chord(key::ALT, 'u');
        self.browser.until_text("#message", "Taken back");
        let item = self.item();
        let before = self.browser.find("#caption-1").property("value");
        assert_eq!(before, json!(self.said[&item]), "what was said is there to be changed");
        self.answer(caption);
    }
}

/// A page in light and dark, on a desk and in a hand.
fn show_everywhere(browser: &Browser, name: &str, all: bool) {
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

/// Nothing went wrong in the page, and it asked for nothing that its policy forbids.
fn assert_quiet(browser: &Browser, connection_was_lost: bool) {
    for (level, message) in browser.console() {
        let lost = connection_was_lost && message.contains("net::ERR_INTERNET_DISCONNECTED");
        assert!(lost || level != "SEVERE", "{level}: {message}");
        assert!(!message.contains("Content Security Policy"), "{message}");
    }
}

/// The lead changes one answer and wants another one done better.
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
    // That she was not let in is said there.
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
    lead.until_text("#confirm-dialog", "Every task has an answer");
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
