//! Why a pick was picked, for strategies that look at what is near: images that its caption helps with.

use serde_json::{Value, json};

use super::app::{App, picture};
use super::driver::Browser;
use super::images::{assert_quiet, show_everywhere};
use crate::world::{json_lines, nextpair};

#[test]
fn annotators_see_what_their_caption_helps_with() {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let run = nextpair(folder.path(), words);
        assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    };
    run("import scenes ds --images 120");
    run(
        "train ds --model vse++ --dim 8 --word-dim 8 --epochs 1 --batch 16 --share 0.4 --out model",
    );
    run(
        "select --model model ds --pool-side image --budget 4 --strategy v-optimal --out picks.jsonl",
    );
    let picks = std::fs::read_to_string(folder.path().join("picks.jsonl")).unwrap();
    let first = json_lines(&picks).remove(0);
    let app = App::start(folder.path(), "picks.jsonl --dataset ds", "Ann");
    let ann = Browser::open();
    ann.go(app.link("Ann"));
    ann.until_shown("#why", true);
    assert_eq!(ann.find("#item").text(), first["id"].as_str().unwrap());
    ann.script("why.open = true");
    for (place, expected) in [
        ("near-pool", &first["near"].as_array().unwrap()[1..]),
        ("near-paired", &first["near"].as_array().unwrap()[..1]),
    ] {
        let shown = format!(
            "return [...document.querySelectorAll('#{place} li')].map((one) => one.dataset.item)"
        );
        let ids: Vec<&Value> = expected.iter().map(|near| &near["id"]).collect();
        assert_eq!(ann.script(&shown), json!(ids), "{place}");
    }
    let loaded = "const all = [...document.querySelectorAll('.near-list img')]; \
                  return all.length === 4 && all.every((one) => one.complete && one.naturalWidth > 0)";
    ann.until("the images are there", || (ann.script(loaded) == json!(true)).then_some(()));
    ann.until_shown("#why-confused", false);
    ann.until_shown("#why-none", false);
    ann.screenshot_of_all(&picture("caption-near"));
    show_everywhere(&ann, "caption-near", true);
    assert_quiet(&ann, false);
}
