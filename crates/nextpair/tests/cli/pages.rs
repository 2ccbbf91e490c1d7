//! Reports and galleries in a real browser: light and dark, desktop and phone, without messages
//! in the console and without barriers that axe-core knows.

mod compared;
mod gallery;
mod rehearsal;
mod report;
mod size;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::annotate::app::picture;
use crate::annotate::driver::Browser;
use crate::world::nextpair;

/// Returns axe-core, which `cargo xtask test` fetches.
fn axe() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/axe-core/package/axe.min.js");
    fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; run `cargo xtask test tests`", path.display()))
}

/// Looks at the open page in light and dark, on a desktop and a phone: it fits, axe-core finds nothing, and
/// nothing is in the console. Screenshots go to `target/screenshots`.
fn look_at(browser: &Browser, name: &str) {
    for (screen, phone) in [("desktop", false), ("phone", true)] {
        if phone {
            browser.phone()
        } else {
            browser.desktop()
        }
        for (scheme, dark) in [("light", false), ("dark", true)] {
            browser.dark(dark);
            let place = format!("{name}, {screen}, {scheme}");
            let fits = "return document.documentElement.scrollWidth <= innerWidth";
            assert_eq!(browser.script(fits), json!(true), "{place}: wider than the window");
            // Colours may still be on their way to the other scheme.
            let still =
                "return document.getAnimations().every((one) => one.playState !== 'running')";
            browser.until("the page is still", || {
                (browser.script(still) == json!(true)).then_some(())
            });
            browser.screenshot(&picture(&format!("{name}-{screen}-{scheme}")));
            no_barriers(browser, &place);
        }
    }
    browser.desktop();
    browser.dark(false);
    let said = browser.console();
    assert!(said.is_empty(), "{name}: {said:?}");
}

/// Runs axe-core in the page.
fn no_barriers(browser: &Browser, place: &str) {
    let known = browser.script("return typeof axe === 'object'");
    if known != json!(true) {
        browser.script(&format!("{};window.axe = axe", axe()));
    }
    browser.script(
        "window.found = null; axe.run().then((result) => { window.found = result.violations.map((one) => \
         one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.target.join(' ') + ' ' + \
         node.failureSummary).join('; ')) })",
    );
    let found = browser.until("axe-core is done", || {
        let found = browser.script("return window.found");
        found.is_array().then_some(found)
    });
    assert_eq!(found, json!([]), "{place}");
}

/// Opens a file.
fn open(path: &Path) -> Browser {
    let browser = Browser::open();
    browser.go(&format!("file://{}", path.canonicalize().unwrap().display()));
    browser
}

/// Runs a command that must succeed.
fn succeeds(folder: &Path, words: &str) -> String {
    let run = nextpair(folder, words);
    assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
    run.stderr
}

/// Returns a folder with an experiment of three strategies and three seeds on scenes.
fn experiment(rounds: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    succeeds(folder.path(), "import scenes ds --images 120");
    let text = format!(
        "dataset = \"ds\"\ninitial = 0.3\nbudget = 12\nrounds = {rounds}\nprice = 0.5\nseeds = [0, 1, 2]\n\
         strategies = [\"random\", \"hard-negative\", \"core-set\"]\n\n[model]\narchitecture = \"vse\"\n\
         dim = 8\nword_dim = 8\n\n[training]\nepochs = 2\nbatch = 16\nvalidate_last = 0\n"
    );
    fs::write(folder.path().join("e.toml"), text).unwrap();
    folder
}

/// Returns the texts of all elements that match.
fn texts(browser: &Browser, selector: &str) -> Vec<String> {
    let script = format!(
        "return [...document.querySelectorAll({})].map((e) => e.textContent.trim())",
        json!(selector)
    );
    let found = browser.script(&script);
    found.as_array().unwrap().iter().map(|text: &Value| text.as_str().unwrap().to_owned()).collect()
}

/// Returns the path of a page in a folder.
fn page(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}
