//! The guidelines: shown at first, on a key, and again when they change.

use serde_json::json;

use super::super::driver::{Browser, key};
use super::{Team, assert_quiet, item, look};

/// Rules, and what an attacker, or a careless lead, could put between them.
const RULES: &str = "\
# What makes a good caption

Say **what sets this image apart**, in *one* sentence. See [the book](https://example.org/book).

1. Who or what is it?
2. Where, doing what?
   - not the frame
   - not the camera

> A red circle above a green star.

Use `left` and `right` as you see them.

```
<b>this stays as it is</b>
```

---

<script>document.title = 'broken'</script> <img src=x onerror=\"document.title = 'broken'\">
[click](javascript:alert(1)) [data](data:text/html,x) <a href=\"//evil\">x</a>
";

#[test]
fn guidelines_are_shown_in_the_browser() {
    let team = Team::new(3);
    team.write("rules.md", RULES);
    let app = team.serve("--guidelines rules.md");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    browser.until_shown("#guidelines-dialog", true);
    browser.until_text("#guidelines-text h3", "What makes a good caption");
    look(&browser, "teams-guidelines", false);
    // Nothing but text, and links that lead to other sites.
    let made = browser.script(
        "const all = [...document.querySelectorAll('#guidelines-text *')]; \
         return { tags: [...new Set(all.map(e => e.tagName))].sort(), \
                  links: all.filter(e => e.tagName === 'A').map(e => e.href), \
                  odd: all.flatMap(e => e.getAttributeNames()).filter(n => n.startsWith('on')) }",
    );
    let tags =
        ["A", "BLOCKQUOTE", "CODE", "EM", "H3", "HR", "LI", "OL", "P", "PRE", "STRONG", "UL"];
    let expected = json!({ "tags": tags, "links": ["https://example.org/book"], "odd": [] });
    assert_eq!(made, expected);
    let nested =
        browser.script("return document.querySelector('#guidelines-text ol ul').innerText");
    assert_eq!(nested, json!("not the frame\nnot the camera"));
    browser.until_text("#guidelines-text", "<script>document.title = 'broken'</script>");
    assert_eq!(browser.script("return document.title"), json!("Caption · nextpair"));

    // The button has the focus: Enter says that they are read, and the work begins.
    browser.keys([key::ENTER]);
    browser.until_shown("#guidelines-dialog", false);
    item(&browser);
    browser.until("the box has the focus", || {
        (browser.script("return document.activeElement.id") == json!("caption-1")).then_some(())
    });
    browser.go(&app.address);
    item(&browser);
    assert_eq!(browser.script("return document.querySelector('dialog[open]')"), json!(null));
    browser.chord(key::ALT, 'g');
    browser.until_shown("#guidelines-dialog", true);
    browser.keys([key::ESCAPE]);
    browser.until_shown("#guidelines-dialog", false);

    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.until_text("#guidelines-shown h3", "What makes a good caption");
    lead.find("#guidelines-edit").click();
    lead.chord(key::CONTROL, 'a');
    lead.type_text("## Second edition");
    lead.until_text("#guidelines-shown h4", "Second edition");
    look(&lead, "teams-guidelines-lead", true);
    lead.find("#guidelines-save").click();
    lead.until_shown("#guidelines-form", false);

    // The annotator is shown them with the next task.
    browser.type_text("A patient walrus watches seven lanterns.");
    browser.keys([key::ENTER]);
    browser.until_shown("#guidelines-dialog", true);
    browser.until_text("#guidelines-text", "Second edition");
    browser.keys([key::ENTER]);
    browser.until_shown("#guidelines-dialog", false);
    item(&browser);
    assert_quiet(&browser);
    assert_quiet(&lead);
}
