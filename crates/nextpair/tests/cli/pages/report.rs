//! The page of a report: what it decides, and how it is explored.

use serde_json::json;

use super::{experiment, look_at, open, page, succeeds, texts};
use crate::annotate::app::picture;
use crate::annotate::driver::key;

#[test]
fn a_report_is_explored() {
    let folder = experiment(2);
    succeeds(folder.path(), "run e.toml --out run");
    succeeds(folder.path(), "report run --currency EUR");
    let browser = open(&page(&folder, "run/report/report.html"));

    // The first screen decides, without scrolling.
    browser.desktop();
    let seen = "const box = document.querySelector('.cells').getBoundingClientRect(); \
                return box.top > 0 && box.bottom < innerHeight";
    assert_eq!(browser.script(seen), json!(true), "the recommendation is on the first screen");
    let headline = browser.find(".headline").text();
    assert!(headline.contains("captions") || headline.contains("Nothing is left"), "{headline}");
    browser.until_text(".cells", "EUR 6");
    look_at(&browser, "report");

    // However wide it is, no row of the recommendation has a hole.
    let rows = "const tops = [...document.querySelectorAll('.cells > div')].map((cell) => cell.offsetTop); \
                return [...new Set(tops)].map((top) => tops.filter((one) => one === top).length)";
    for (width, counts) in [(700, json!([2, 2])), (1100, json!([2, 2])), (1400, json!([4]))] {
        browser.width(width);
        assert_eq!(browser.script(rows), counts, "{width} pixels");
    }
    browser.desktop();

    // Every line of the contents leads to a section.
    let lost = "return [...document.querySelectorAll('.contents a')].filter((a) => \
                !document.getElementById(a.hash.slice(1))).length";
    assert_eq!(browser.script(lost), json!(0));
    assert!(texts(&browser, ".contents a").len() >= 10);

    // A series goes and comes, by mouse and by keys, and only the one in focus has a band.
    let button = "#chart-log-rank .legend li:nth-child(2) button";
    let hidden = "return document.querySelector('#chart-log-rank .drawn[data-series=\"1\"]').classList.contains('off')";
    browser.find(button).click();
    assert_eq!(browser.script(hidden), json!(true));
    browser.keys([' ']);
    assert_eq!(browser.script(hidden), json!(false));
    let bands = "return [...document.querySelectorAll('#chart-log-rank .bands:not(.quiet)')].map((b) => b.dataset.series)";
    assert_eq!(browser.script(bands), json!(["1"]), "the button has the focus");

    // Values by arrow keys, said to screen readers too.
    browser.script("document.querySelector('#chart-log-rank-drawing').focus()");
    browser.keys([key::ARROW_RIGHT]);
    browser.until_text("#tip", "paired items");
    let said = texts(&browser, "#announcer").remove(0);
    assert!(said.contains("hard-negative") && said.contains("random"), "{said}");
    assert_eq!(texts(&browser, "#tip b").len(), 3);
    browser.screenshot(&picture("report-values"));

    // Differences per seed.
    let seeds = "return document.querySelectorAll('#chart-differences .seed').length";
    assert_eq!(browser.script(seeds), json!(2 * 3));

    // A table is sorted down, up, and as it was.
    let names = || texts(&browser, "[data-table=strategies] tbody th");
    let before = names();
    let head = "[data-table=strategies] thead th:nth-child(1) button";
    browser.find(head).click();
    let mut sorted = before.clone();
    sorted.sort();
    assert_eq!(names(), sorted);
    let order = "return document.querySelector('[data-table=strategies] thead th').ariaSort";
    assert_eq!(browser.script(order), json!("ascending"));
    browser.find(head).click();
    sorted.reverse();
    assert_eq!(names(), sorted);
    browser.find(head).click();
    assert_eq!(names(), before);

    // On a phone, wide tables say that there is more.
    browser.phone();
    browser.until_shown("#recall .more", true);
    browser.script("document.querySelector('#recall .scroll').scrollLeft = 200");
    browser.until_shown("#recall .more", false);
    browser.desktop();

    // The map: keys find items, and take them to the list.
    browser.script("document.querySelector('figure.map').scrollIntoView({ block: 'center', behavior: 'instant' })");
    browser.script("document.querySelector('#chart-picks-drawing').focus({ preventScroll: true })");
    browser.keys([key::ARROW_RIGHT, ' ', key::ARROW_RIGHT, ' ']);
    browser.until_text(".lassoed", "2 items listed");
    browser.until_text("#tip", "scene-");
    assert_eq!(texts(&browser, ".tiles .name").len(), 2);
    let tile = "return document.querySelector('.tiles .tile').style.backgroundImage.startsWith('url(\"data:image/jpeg')";
    assert_eq!(browser.script(tile), json!(true));
    // A lasso around everything.
    browser.script(
        "const panel = document.querySelector('figure.map .panel'); const box = panel.getBoundingClientRect(); \
         panel.setPointerCapture = () => {}; \
         const at = (type, x, y) => panel.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, \
         bubbles: true, isPrimary: true })); \
         at('pointerdown', box.left - 2, box.top - 2); at('pointermove', box.right + 2, box.top - 2); \
         at('pointermove', box.right + 2, box.bottom + 2); at('pointermove', box.left - 2, box.bottom + 2); \
         at('pointerup', box.left - 2, box.bottom + 2)",
    );
    let listed = texts(&browser, ".lassoed [role=status]").remove(0);
    let count: usize = listed.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 20, "{listed}");
    browser.screenshot(&picture("report-map"));
    look_at(&browser, "report-explored");
}

#[test]
fn a_report_is_read_without_scripts_and_on_paper() {
    let folder = experiment(1);
    succeeds(folder.path(), "run e.toml --out run");
    succeeds(folder.path(), "report run");
    let browser = open(&page(&folder, "run/report/report.html"));
    browser.without_scripts();
    browser.go(&browser.url());
    for words in ["What to do", "Learning curves", "What was picked, and why", "Stop or go"] {
        browser.until_text("main", words);
    }
    browser.until_shown(".gallery .pick", true);
    browser.until_shown("figure.map svg", true);
    browser.until_shown(".contents ol", true);
    browser.until_shown("#chart-log-rank .legend", true);
    browser.screenshot(&picture("report-without-scripts"));
    let paper = browser.pdf();
    assert!(paper.starts_with(b"%PDF"), "it can be printed");
}
