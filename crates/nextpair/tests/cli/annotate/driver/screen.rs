//! Window sizes, colour schemes, network conditions, screenshots and the console of the browser.

use std::fs;
use std::path::Path;

use base64::prelude::*;
use serde_json::{Value, json};

use super::Browser;

const DESKTOP: (u32, u32) = (1280, 860);
const PHONE: (u32, u32) = (375, 812);

impl Browser {
    /// Writes a screenshot of the window to a PNG file.
    pub fn screenshot(&self, path: &Path) {
        self.capture(path, false);
    }

    /// Writes a screenshot of the whole page, including the part below the window.
    pub fn screenshot_of_all(&self, path: &Path) {
        self.capture(path, true);
    }

    fn capture(&self, path: &Path, beyond: bool) {
        let wanted = json!({ "format": "png", "captureBeyondViewport": beyond });
        let image = self.devtools("Page.captureScreenshot", wanted);
        let bytes = BASE64_STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Disconnects the browser from the network, or reconnects it.
    pub fn offline(&self, offline: bool) {
        self.devtools("Network.enable", json!({}));
        let conditions = json!({ "offline": offline, "latency": 0, "downloadThroughput": -1,
                                 "uploadThroughput": -1 });
        self.devtools("Network.emulateNetworkConditions", conditions);
    }

    /// Sets the preferred colour scheme to dark or light.
    pub fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Sets the window size of a desktop.
    pub fn desktop(&self) {
        self.size(DESKTOP, false);
    }

    /// Sets the window size of a phone.
    pub fn phone(&self) {
        self.size(PHONE, true);
    }

    /// Sets the width of a window as high as that of a laptop.
    pub fn width(&self, width: u32) {
        self.size((width, DESKTOP.1), false);
    }

    fn size(&self, (width, height): (u32, u32), mobile: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1,
                              "mobile": mobile });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Runs no scripts of pages from now on.
    pub fn without_scripts(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    }

    /// Prints the page.
    pub fn pdf(&self) -> Vec<u8> {
        let printed = self.devtools("Page.printToPDF", json!({ "printBackground": true }));
        BASE64_STANDARD.decode(printed["data"].as_str().unwrap()).unwrap()
    }

    fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    /// Returns the console messages since the last call, with their levels.
    pub fn console(&self) -> Vec<(String, String)> {
        let entries = self.post("/se/log", json!({ "type": "browser" }));
        let word = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
        let entry = |entry| (word(entry, "level"), word(entry, "message"));
        entries.as_array().unwrap().iter().map(entry).collect()
    }
}

#[test]
fn a_browser_is_driven() {
    use super::key;

    let browser = Browser::open();
    let page = "data:text/html,<meta name=viewport content=width=device-width><style>@media (prefers-color-scheme: dark) \
                { b { display: none } }</style><input id=i><b>bold</b><button \
                onclick=\"console.error('clicked')\">click</button>";
    browser.go(page);
    assert!(browser.url().starts_with("data:"));
    browser.find("#i").click();
    browser.type_text("Ein schöner Stern");
    browser.chord(key::CONTROL, 'a');
    browser.keys([key::BACKSPACE]);
    browser.type_text("a sт★r");
    assert_eq!(browser.find("#i").property("value"), json!("a sт★r"));
    browser.until_text("b", "bold");
    browser.dark(true);
    browser.until_shown("b", false);
    browser.dark(false);
    browser.until_shown("b", true);
    browser.phone();
    assert_eq!(browser.script("return innerWidth"), json!(PHONE.0));
    browser.find("button").click();
    let console = browser.console();
    assert!(console.iter().any(|(level, said)| level == "SEVERE" && said.contains("clicked")));
    let image = browser.folder.path().join("screenshot.png");
    browser.screenshot(&image);
    assert_eq!(image::image_dimensions(&image).unwrap(), PHONE);
}
