//! A browser driven by a test, through the W3C WebDriver protocol.

mod screen;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::{Method, Request};

const FLAGS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// The JSON key of an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(120);

/// Keys without a character.
pub mod key {
    pub const BACKSPACE: char = '\u{e003}';
    pub const ENTER: char = '\u{e007}';
    pub const CONTROL: char = '\u{e009}';
    pub const ALT: char = '\u{e00a}';
    pub const ESCAPE: char = '\u{e00c}';
    pub const END: char = '\u{e010}';
    pub const ARROW_RIGHT: char = '\u{e014}';
    pub const ARROW_DOWN: char = '\u{e015}';
}

/// A headless Chromium with a fresh profile. Dropping it closes the browser.
pub struct Browser {
    driver: Child,
    agent: ureq::Agent,
    /// The URL of the session, once there is one.
    session: String,
    /// The profile, and the output of the driver.
    folder: tempfile::TempDir,
}

/// An element of the open page.
pub struct Element<'a> {
    browser: &'a Browser,
    name: String,
}

impl Browser {
    /// Starts the driver on a free port and opens a window. Panics if there is no driver.
    pub fn open() -> Self {
        let program = std::env::var("CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
        let folder = tempfile::tempdir().unwrap();
        let said = folder.path().join("driver.log");
        let driver = Command::new(&program)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(fs::File::create(&said).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}; run `cargo xtask test`, or install it"));
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut browser = Browser { driver, agent, session: String::new(), folder };
        let port = until("the driver listens", || {
            let said = fs::read_to_string(&said).unwrap();
            let (_, rest) = said.split_once("successfully on port ")?;
            let (port, _) = rest.split_once('.')?;
            port.parse::<u16>().ok()
        });
        let profile = format!("--user-data-dir={}", browser.folder.path().display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        browser.session = format!("http://127.0.0.1:{port}/session");
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let session = browser.command(Method::POST, "", Some(wanted));
        browser.session += &format!("/{}", session["sessionId"].as_str().unwrap());
        browser.desktop();
        browser
    }

    /// Opens a page and waits until it is loaded.
    pub fn go(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// Returns the URL of the window.
    pub fn url(&self) -> String {
        self.command(Method::GET, "/url", None).as_str().unwrap().to_owned()
    }

    /// Waits for the first element that matches a CSS selector.
    pub fn find(&self, selector: &str) -> Element<'_> {
        self.until(&format!("there is {selector}"), || self.all(selector).into_iter().next())
    }

    /// Returns the elements that match a CSS selector now.
    pub fn all(&self, selector: &str) -> Vec<Element<'_>> {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.post("/elements", wanted);
        let name = |element: &Value| element[ELEMENT].as_str().unwrap().to_owned();
        let element = |found| Element { browser: self, name: name(found) };
        found.as_array().unwrap().iter().map(element).collect()
    }

    /// Runs the body of a function in the page and returns its result.
    pub fn script(&self, body: &str) -> Value {
        self.post("/execute/sync", json!({ "script": body, "args": [] }))
    }

    /// Presses one key after the other, in the focused element.
    pub fn keys(&self, keys: impl IntoIterator<Item = char>) {
        let strikes = keys.into_iter().flat_map(|key| [down(key), up(key)]).collect();
        self.act(strikes);
    }

    /// Types a text into the focused element.
    pub fn type_text(&self, text: &str) {
        self.keys(text.chars());
    }

    /// Presses a key while another one is held.
    pub fn chord(&self, held: char, key: char) {
        self.act(vec![down(held), down(key), up(key), up(held)]);
    }

    fn act(&self, strikes: Vec<Value>) {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strikes });
        self.post("/actions", json!({ "actions": [keyboard] }));
    }

    /// Polls a condition until it returns a value.
    pub fn until<T>(&self, what: &str, condition: impl FnMut() -> Option<T>) -> T {
        until(what, condition)
    }

    /// Waits until the text of an element contains some words.
    pub fn until_text(&self, selector: &str, words: &str) {
        self.until(&format!("{selector} says '{words}'"), || {
            // The page may replace the element meanwhile.
            let script = format!(
                "const e = document.querySelector({}); return e && e.innerText",
                json!(selector)
            );
            self.script(&script).as_str()?.contains(words).then_some(())
        });
    }

    /// Waits until an element is visible, or hidden.
    pub fn until_shown(&self, selector: &str, shown: bool) {
        let script = format!(
            "const e = document.querySelector({}); return !!e && e.checkVisibility()",
            json!(selector)
        );
        let what = format!("{selector} is {}", if shown { "shown" } else { "hidden" });
        self.until(&what, || (self.script(&script) == json!(shown)).then_some(()));
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.command(Method::POST, path, Some(body))
    }

    fn command(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let answer = self.try_command(&method, path, body.as_ref());
        answer.unwrap_or_else(|why| panic!("{method} {path} {body:?}: {why}"))
    }

    fn try_command(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.session));
        let reply = match body {
            Some(body) => self.agent.run(request.body(body.to_string()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut reply = reply.map_err(|e| e.to_string())?;
        let largest = 1 << 28;
        let text = reply.body_mut().with_config().limit(largest).read_to_string();
        let text = text.map_err(|e| e.to_string())?;
        let mut answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        if reply.status().is_success() {
            Ok(answer["value"].take())
        } else {
            Err(answer["value"]["message"].to_string())
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closes Chromium. Without a session there is none.
        let _ = self.try_command(&Method::DELETE, "", None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Element<'_> {
    pub fn click(&self) {
        self.post("/click", json!({}));
    }

    /// Types a text after the current content of the element.
    pub fn type_text(&self, text: &str) {
        self.post("/value", json!({ "text": text }));
    }

    /// Returns the visible text of the element.
    pub fn text(&self) -> String {
        self.get("/text").as_str().unwrap().to_owned()
    }

    /// Returns a property of the element, such as the value of an input.
    pub fn property(&self, name: &str) -> Value {
        self.get(&format!("/property/{name}"))
    }

    fn path(&self, path: &str) -> String {
        format!("/element/{}{path}", self.name)
    }

    fn post(&self, path: &str, body: Value) {
        self.browser.post(&self.path(path), body);
    }

    fn get(&self, path: &str) -> Value {
        self.browser.command(Method::GET, &self.path(path), None)
    }
}

fn down(key: char) -> Value {
    json!({ "type": "keyDown", "value": key })
}

fn up(key: char) -> Value {
    json!({ "type": "keyUp", "value": key })
}

/// Polls a condition until it returns a value.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
