//! Sign-in links in the browser: created, revoked, and opened from another site.

use super::app::{App, picture};
use super::driver::Browser;
use crate::world::nextpair;

#[test]
fn links_are_made_and_revoked_and_do_not_replace_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let made = nextpair(folder.path(), "import scenes ds --images 80");
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    // One task for each person.
    let task = |at: u32| format!("{{\"rank\":{at},\"id\":\"scene-00000{at}\",\"score\":1.0}}\n");
    std::fs::write(folder.path().join("queue.jsonl"), task(1) + &task(2)).unwrap();
    let app = App::start(folder.path(), "queue.jsonl --dataset ds", "Ann");

    let lead = Browser::open();
    lead.go(app.link("lead"));
    lead.find("tr[data-person=\"2\"] .add-link").click();
    lead.until_shown("#link-dialog", true);
    lead.screenshot(&picture("lead-link"));
    let link = lead.find("#link").property("value").as_str().unwrap().to_owned();
    lead.find("#link-dialog [data-close]").click();
    let ann = Browser::open();
    ann.go(&link);
    assert_eq!(ann.url(), format!("{}/", app.address));

    // A page on another site sends the lead to Ann's link.
    let elsewhere = format!("data:text/html,<a href=\"{link}\">Look at this</a>");
    lead.go(&elsewhere);
    lead.find("a").click();
    lead.until_text("#name", "lead");
    lead.screenshot(&picture("join"));
    lead.find("#stay").click();
    lead.find("body[data-view=task]");
    lead.until_text("#name", "lead");
    lead.go(&elsewhere);
    lead.find("a").click();
    lead.until_text("#name", "lead");
    lead.find("#join").click();
    // Ask with a script: an element found earlier may be gone with its page.
    let name = "return document.querySelector('#name')?.textContent ?? ''";
    lead.until("it is Ann's page", || (lead.script(name) == "Ann").then_some(()));
    // A link opened by hand needs no confirmation.
    lead.go(app.link("lead"));
    assert_eq!(lead.url(), format!("{}/lead", app.address));

    lead.find("tr[data-person=\"2\"] .links li:nth-child(2) button").click();
    lead.until_text("#confirm-dialog", "Revoke link 2 of Ann?");
    lead.find("#confirm-yes").click();
    lead.until("one link is left", || {
        (lead.all("tr[data-person=\"2\"] .links li").len() == 1).then_some(())
    });
    ann.go(&app.address);
    ann.find("body[data-view=signed-out]");
    ann.go(app.link("Ann"));
    ann.find("body[data-view=task]");
}
