//! The page of a rehearsal.

use std::fs;

use serde_json::json;

use super::{look_at, open, page, succeeds, texts};

#[test]
fn a_rehearsal_is_read() {
    let folder = tempfile::tempdir().unwrap();
    succeeds(folder.path(), "import scenes ds --images 120");
    let settings = "[model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n\n[training]\nepochs = 2\nbatch = 8\n";
    fs::write(folder.path().join("s.toml"), settings).unwrap();
    let words = "rehearse ds --config s.toml --budget 20 --seeds 4 --strategies herding,margin";
    succeeds(folder.path(), &format!("{words} --price 0.5 --out r"));
    let browser = open(&page(&folder, "r/rehearsal.html"));
    browser.desktop();
    let seen = "const box = document.querySelector('.headline').getBoundingClientRect(); \
                return box.top > 0 && box.bottom < innerHeight";
    assert_eq!(browser.script(seen), json!(true), "the advice is on the first screen");
    let names = texts(&browser, "#evidence tbody th");
    assert_eq!(names.len(), 2 * 4, "{names:?}");
    // The strategies by their names.
    browser.find("#evidence thead th:nth-child(1) button").click();
    let sorted = &texts(&browser, "#evidence tbody th")[..4];
    assert_eq!(sorted, ["herding", "margin", "random", "random-2"]);
    look_at(&browser, "rehearsal");
}
