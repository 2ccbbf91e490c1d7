//! `select --html`: picks as a gallery.

use std::path::Path;

use serde_json::{Value, json};

use super::{look_at, open, page, succeeds, texts};
use crate::annotate::app::picture;
use crate::annotate::driver::key;
use crate::world::{World, json_lines};

const SELECT: &str = "--pool-side image --budget 30 --out picks.jsonl";

#[test]
fn picks_are_a_gallery() {
    let folder = tempfile::tempdir().unwrap();
    succeeds(folder.path(), "import scenes ds --images 160");
    succeeds(
        folder.path(),
        "train ds --model vse++ --dim 8 --word-dim 8 --epochs 2 --batch 16 --share 0.4 --out model",
    );
    let words = format!("select --model model ds {SELECT} --strategy hard-negative");
    let said = succeeds(folder.path(), &format!("{words} --html picks.html"));
    assert!(said.contains("page        picks.html"), "{said}");
    let browser = open(&page(&folder, "picks.html"));
    browser.desktop();
    let picks = std::fs::read_to_string(page(&folder, "picks.jsonl")).unwrap();
    let ids: Vec<String> = picks
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let shown = || -> Vec<String> {
        let names = texts(&browser, ".gallery .pick .name");
        names.iter().map(|name| name.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(shown(), ids[..24], "the first page");
    let loaded = "return [...document.querySelectorAll('.gallery img')].every((i) => i.complete && i.naturalWidth > 0)";
    browser.until("the images are there", || (browser.script(loaded) == json!(true)).then_some(()));
    assert!(browser.all(".gallery .pick > .frame img").len() == 24);
    let reasons = json_lines(&picks).into_iter().take(24);
    let reasons = reasons.map(|pick| pick["why"].as_array().unwrap().len().min(3)).sum::<usize>();
    assert!(reasons > 0, "some would be confused with something");
    assert_eq!(browser.all(".gallery .reasons .bar").len(), reasons);
    look_at(&browser, "gallery");

    browser.find("#gallery-after").click();
    assert_eq!(shown(), ids[24..]);
    browser.find("#gallery-before").click();

    // A caption leads to all picks that would be confused with it.
    let caption = browser.find(".gallery .reasons .said");
    let words = caption.text();
    caption.click();
    let left = shown();
    assert!(!left.is_empty() && left.len() < ids.len() && left.contains(&ids[0]), "{left:?}");
    assert!(texts(&browser, ".gallery .pick").iter().all(|pick| pick.contains(&words)));
    browser.script("document.querySelector('#gallery-anchor').select()");
    browser.keys([key::BACKSPACE]);
    assert_eq!(shown().len(), 24);

    // Scores, by the keys of the slider.
    browser.script("document.querySelector('#gallery-least').focus()");
    browser.keys([key::END]);
    assert_eq!(shown(), ids[..1], "the largest score");
    browser.find("#gallery-copy").click();
    browser.until_text("#gallery-copy", "Copied 1 ids");
    browser.screenshot(&picture("gallery-filtered"));
    assert_eq!(browser.console(), []);
    neighbours_are_shown(folder.path());
}

/// What learns from a pick, and what is most like it so far.
fn neighbours_are_shown(folder: &Path) {
    let flags = SELECT.replace("hard-negative", "v-optimal");
    let words = format!("select --model model ds {flags} --html near.html");
    let said = succeeds(folder, &words);
    let effect = said.lines().find(|line| line.starts_with("uncertainty ")).unwrap();
    let browser = open(&folder.join("near.html"));
    browser.desktop();
    let picks = std::fs::read_to_string(folder.join("picks.jsonl")).unwrap();
    let near: Vec<Value> = json_lines(&picks).iter().map(|pick| pick["near"].clone()).collect();
    for near in &near {
        let near = near.as_array().unwrap();
        assert!(near[0]["cosine"].is_f64() && near[0]["caption"].is_string(), "{near:?}");
        assert!(near.len() == 4 && near[1..].iter().all(|one| one["share"].is_f64()), "{near:?}");
    }
    assert_eq!(
        browser.find(".gallery .said-of").text().split_once("batch: ").unwrap().1,
        format!("{effect}.")
    );
    let cards = texts(&browser, ".gallery .pick");
    for (card, near) in cards.iter().zip(&near) {
        assert!(card.contains("takes away ") && card.contains(" of the uncertainty"), "{card}");
        assert!(card.contains("Nearest that has a caption (cosine "), "{card}");
        assert!(card.contains(near[0]["caption"].as_str().unwrap()), "{card}");
        assert!(card.contains("More certain once it has a caption"), "{card}");
    }
    assert_eq!(browser.all(".gallery .learners .note").len(), 24 * 3);
    assert_eq!(browser.all(".gallery .near img").len(), 24 * 4);
    look_at(&browser, "gallery-near");

    // An id leads to all picks that it learns from.
    let learner = near[0][1]["id"].as_str().unwrap();
    browser.find("#gallery-anchor").type_text(learner);
    let shown = texts(&browser, ".gallery .pick .name").len();
    let learns = |near: &Value| near.as_array().unwrap().iter().any(|one| one["id"] == learner);
    let expected = json_lines(&picks)
        .iter()
        .filter(|pick| learns(&pick["near"]) || pick["id"] == learner)
        .count();
    assert_eq!(shown, expected);
}

#[test]
fn picks_of_embeddings_find_their_images_by_their_ids() {
    let world = World::small();
    succeeds(&world.path(""), "import scenes ds --images 80");
    let ids = |from: usize, count: usize| -> String {
        (from..from + count).map(|at| format!("scene-{at:06}\n")).collect()
    };
    world.write("ids.txt", ids(1, world.pool.len()).as_bytes());
    world.write("pairs.txt", ids(45, world.images.len()).as_bytes());
    world.select("--ids ids.txt --paired-ids pairs.txt --html p.html --html-dataset ds");
    let html = String::from_utf8(world.read("p.html")).unwrap();
    let dataset = String::from_utf8(world.read("ds/items.jsonl")).unwrap();
    let first: Value = serde_json::from_str(dataset.lines().nth(45).unwrap()).unwrap();
    assert!(html.contains("data:image/jpeg;base64,") && html.contains("made up by a program"));
    let captions = first["captions"].as_array().unwrap();
    assert!(!captions.is_empty() && html.contains("<p class=\"said\">"));

    let dataset = "--ids ids.txt --paired-ids pairs.txt --html p.html --html-dataset ds";
    world.select(&format!("--strategy v-optimal {dataset}"));
    let html = String::from_utf8(world.read("p.html")).unwrap();
    assert!(html.contains("Nearest that has a caption (cosine "), "without a script too");
    assert!(html.contains("<ul class=\"learners\"><li><div class=\"frame\"><img "));

    world.select("--html p.html");
    let html = String::from_utf8(world.read("p.html")).unwrap();
    assert!(html.contains("there are no images and captions to show, only names"));
    for (flags, expected) in [
        ("--html p.txt", "a page ends in .html"),
        ("--html no/such/p.html", "no/such"),
        ("--html-dataset ds", "--html"),
        ("--html p.html --html-dataset out", "not a dataset"),
    ] {
        let run = world.ask("select", flags);
        assert_eq!(run.code, Some(2), "{flags}");
        assert!(run.stderr.contains(expected), "{flags}: {}", run.stderr);
    }
}
