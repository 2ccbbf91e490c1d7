//! The contact sheet as one page that needs nothing else.

use std::fmt::Write;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;

use super::Inspection;
use super::cards::Card;
use crate::numbers::grouped;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #222226; --pale: #70707a; --paper: #fafaf8; --card: #fff; --line: #e4e4e0 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ea; --pale: #9a9aa4; --paper: #17171a; --card: #202024; --line: #34343a }
}
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.4rem; margin: 0 } p { color: var(--pale); margin: .3rem 0 1.5rem }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)) }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden;
  break-inside: avoid }
.frame { aspect-ratio: 4 / 3; display: grid; place-items: center; background: var(--line); color: var(--pale) }
.frame img { max-width: 100%; max-height: 100%; object-fit: contain }
ul { margin: .5rem 0 1rem; padding: 0 1rem 0 1.8rem } h2 { font-size: .8rem; font-weight: 500; color: var(--pale);
  margin: .7rem 1rem 0; overflow-wrap: anywhere }
.split { border: 1px solid var(--line); border-radius: 4px; padding: 0 .35rem; margin-right: .4rem }
";

pub(super) fn write(inspection: &Inspection, cards: &[Card]) -> Result<String> {
    let name = escaped(&inspection.name);
    let synthetic = match inspection.synthetic {
        true => " <strong>Synthetic: made up by a program.</strong>",
        false => "",
    };
    let mut page = String::new();
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{name}</title><style>{STYLE}</style></head><body>\n<h1>{name}</h1>\n\
         <p>{} of {} items, from {}.{synthetic}</p>\n<main>\n",
        cards.len(),
        grouped(inspection.items),
        escaped(&inspection.source)
    )?;
    for card in cards {
        let picture = match &card.thumbnail {
            Ok(thumbnail) => {
                let mut jpeg = Vec::new();
                let encoder = JpegEncoder::new_with_quality(&mut jpeg, 85);
                thumbnail.write_with_encoder(encoder).context("cannot encode a thumbnail")?;
                format!("<img alt=\"\" src=\"data:image/jpeg;base64,{}\">", STANDARD.encode(jpeg))
            }
            Err(why) => (*why).to_owned(),
        };
        let split = card.item.split.as_deref().map_or(String::new(), |split| {
            format!("<span class=\"split\">{}</span>", escaped(split))
        });
        let captions: String =
            card.item.captions.iter().map(|c| format!("<li>{}</li>", escaped(c))).collect();
        writeln!(
            page,
            "<article><div class=\"frame\">{picture}</div><h2>{split}{}</h2><ul>{captions}</ul></article>",
            escaped(&card.item.id)
        )?;
    }
    page.push_str("</main></body></html>\n");
    Ok(page)
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}
