//! The contact sheet as a self-contained HTML page.

use std::fmt::Write;

use anyhow::Result;

use super::Inspection;
use crate::program::numbers::grouped;
use crate::report::card::Card;
use crate::report::page;

pub(super) fn write(inspection: &Inspection, cards: &[Card]) -> Result<String> {
    let mut body = String::new();
    let synthetic = page::synthetic(inspection.synthetic);
    let (items, source) = (grouped(inspection.items), page::escaped(&inspection.source));
    writeln!(body, "<p>{} of {items} items, from {source}.{synthetic}</p>\n<main>", cards.len())?;
    for Card { item, thumbnail } in cards {
        let (frame, name) = (page::frame(thumbnail), page::name(item));
        writeln!(body, "<article>{frame}<h2>{name}</h2>{}</article>", page::captions(item))?;
    }
    body.push_str("</main>");
    Ok(page::page(&inspection.name, "", &body))
}
