//! Self-contained HTML pages, with inline style and images.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;
use nextpair_data::dataset::Item;
use sha2::{Digest, Sha256};

use super::card::Thumbnail;

/// The beginning of the element that states the policy of a page.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"";

/// The style of all pages, for light and dark mode.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #222226; --pale: #70707a; --paper: #fafaf8; --card: #fff; --line: #e4e4e0;
  --mark: #1f6f5c }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --pale: #9a9aa4; --paper: #17171a; --card: #202024; --line: #34343a; --mark: #6cc9ae }
}
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere } p { color: var(--pale); margin: .3rem 0 1.5rem }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)) }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden;
  break-inside: avoid }
.frame { aspect-ratio: 4 / 3; display: grid; place-items: center; background: var(--line); color: var(--pale) }
.frame img { display: block; width: 100%; aspect-ratio: 4 / 3; object-fit: contain }
ul { margin: .5rem 0 1rem; padding: 0 1rem 0 1.8rem; overflow-wrap: anywhere }
h2 { font-size: .8rem; font-weight: 500; color: var(--pale); margin: .7rem 1rem 0; overflow-wrap: anywhere }
.split { border: 1px solid var(--line); border-radius: 4px; padding: 0 .35rem; margin-right: .4rem }
";

/// Returns a page. The title is plain text; style and body are CSS and HTML.
pub fn page(title: &str, style: &str, body: &str) -> String {
    document(title, style, &format!("<h1>{}</h1>\n{body}", escaped(title)), "")
}

/// Returns a page whose body has a heading of its own. The script is put in as it is. The page states a
/// content security policy that lets its own style and script in by their hashes, and no other.
pub(crate) fn document(title: &str, style: &str, body: &str, script: &str) -> String {
    let (title, style) = (escaped(title), format!("{STYLE}{style}"));
    let policy = format!(
        "{POLICY}default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; \
         form-action 'none'; base-uri 'none'",
        hash(script),
        hash(&style)
    );
    let script = match script {
        "" => String::new(),
        script => format!("<script>{script}</script>\n"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{policy}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{title}</title><style>{style}</style></head><body>\n{body}{script}</body></html>\n"
    )
}

/// Returns the content security policy that a page states, for whoever serves it.
pub fn policy(page: &str) -> Option<&str> {
    let (_, policy) = page.split_once(POLICY)?;
    policy.split('"').next()
}

/// Names an inline script or style in a policy.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// Returns a thumbnail in a frame, or the reason why there is none.
pub fn frame(thumbnail: &Thumbnail) -> String {
    let inside = match thumbnail.as_ref().map(jpeg) {
        Ok(Some(jpeg)) => {
            format!("<img alt=\"\" src=\"data:image/jpeg;base64,{}\">", STANDARD.encode(jpeg))
        }
        Ok(None) => "image cannot be shown".to_owned(),
        Err(why) => (*why).to_owned(),
    };
    format!("<div class=\"frame\">{inside}</div>")
}

fn jpeg(thumbnail: &RgbImage) -> Option<Vec<u8>> {
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, 85);
    thumbnail.write_with_encoder(encoder).ok()?;
    Some(jpeg)
}

/// Returns the split and the id of an item.
pub fn name(item: &Item) -> String {
    let split = item
        .split
        .as_deref()
        .map_or(String::new(), |split| format!("<span class=\"split\">{}</span>", escaped(split)));
    split + &escaped(&item.id)
}

/// Returns the captions of an item as a list.
pub fn captions(item: &Item) -> String {
    let captions: String =
        item.captions.iter().map(|c| format!("<li>{}</li>", escaped(c))).collect();
    format!("<ul>{captions}</ul>")
}

/// Returns a mark for generated data.
pub fn synthetic(synthetic: bool) -> &'static str {
    if synthetic { " <strong>Synthetic: made up by a program.</strong>" } else { "" }
}

/// Escapes text for HTML.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
