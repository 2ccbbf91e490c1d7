//! Several experiments on one page.

use serde_json::json;

use super::{experiment, look_at, open, page, succeeds, texts};

#[test]
fn experiments_are_compared_on_one_page() {
    let folder = experiment(1);
    succeeds(folder.path(), "run e.toml --out one");
    succeeds(folder.path(), "run e.toml --out two --epochs 3");
    succeeds(folder.path(), "run e.toml --out three --epochs 4 --strategies random,core-set");
    succeeds(folder.path(), "report one two three --compare --out page");
    let browser = open(&page(&folder, "page/report.html"));
    browser.desktop();
    assert_eq!(texts(&browser, "[data-table=experiments] tbody th"), ["one", "two", "three"]);
    browser.until_text("#all", "training.epochs");
    assert_eq!(browser.all("main > h2.run").len(), 3);
    let twice = "const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); \
                 return ids.filter((id, at) => ids.indexOf(id) !== at)";
    assert_eq!(browser.script(twice), json!([]));
    look_at(&browser, "compared");
}
