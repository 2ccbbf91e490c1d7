//! The results of a search as a self-contained HTML page.

use std::fmt::Write;
use std::path::Path;

use crate::data::Side;
use crate::data::dataset::Dataset;
use anyhow::Result;
use rayon::prelude::*;

use super::query::{Kind, Query};
use super::report::Report;
use crate::program::numbers::grouped;
use crate::report::card::Card;
use crate::report::page;

const STYLE: &str = "
h2 { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline }
.rank { font-size: 1.05rem; font-weight: 650; color: var(--ink) }
.score { font-variant-numeric: tabular-nums }
.own { color: var(--mark); font-weight: 600 }
.beside { display: grid; gap: 1.5rem; align-items: start }
.asked { border-radius: 8px; overflow: hidden; max-width: 22rem }
.captions { grid-template-columns: 1fr; gap: .6rem }
.captions article { display: grid; grid-template-columns: 7.5rem 1fr }
.captions .frame { aspect-ratio: auto } .captions .found { align-self: center }
.captions h2 { margin-top: .4rem }
blockquote { margin: .1rem 1rem .5rem; font-size: 1.05rem; overflow-wrap: anywhere }
@media (min-width: 56rem) {
  .beside { grid-template-columns: 22rem 1fr } .asked { position: sticky; top: 1.5rem }
}
@media (max-width: 30rem) {
  body { margin-top: 1rem } .captions article { grid-template-columns: 6rem 1fr }
  .captions h2, blockquote { margin-left: .7rem; margin-right: .7rem } blockquote { font-size: 1rem }
}
";

pub(super) fn write(dataset: &Dataset, query: &Query, report: &Report) -> Result<String> {
    let mut body = String::new();
    let (among, searched) = (grouped(report.among), report.searched);
    let (name, synthetic) =
        (page::escaped(&dataset.manifest().name), page::synthetic(report.synthetic));
    write!(body, "<p>The best {} of {among} {searched} of {name}.", report.results.len())?;
    if !query.unknown_words.is_empty() {
        let words = page::escaped(&query.unknown_words.join(", "));
        write!(body, " Not in the vocabulary: {words}.")?;
    }
    writeln!(body, "{synthetic}</p>")?;
    if let Some(thumbnail) = &query.thumbnail {
        let frame = page::frame(thumbnail);
        writeln!(body, "<div class=\"beside\"><div class=\"asked\">{frame}</div>")?;
    }
    let cards: Vec<Card> =
        report.results.par_iter().map(|found| Card::of(dataset, found.item)).collect();
    let class = match query.wanted() {
        Side::Image => "images",
        Side::Text => "captions",
    };
    writeln!(body, "<main class=\"{class}\">")?;
    for (found, Card { item, thumbnail }) in report.results.iter().zip(&cards) {
        let (frame, name) = (page::frame(thumbnail), page::name(item));
        let (rank, score) = (found.rank, found.score);
        let own = if query.kind == Kind::Item(found.item) {
            "<span class=\"own\">its own</span>"
        } else {
            ""
        };
        let head = format!(
            "<h2><span class=\"rank\">{rank}</span><span class=\"score\">{score:.5}</span>\
             <span>{name}</span>{own}</h2>"
        );
        let text = match query.wanted() {
            Side::Image => page::captions(item),
            Side::Text => {
                let caption = page::escaped(found.caption.as_deref().unwrap_or_default());
                format!("<blockquote>{caption}</blockquote>")
            }
        };
        writeln!(body, "<article>{frame}<div class=\"found\">{head}{text}</div></article>")?;
    }
    body.push_str("</main>");
    if query.thumbnail.is_some() {
        body.push_str("</div>");
    }
    let title = match query.kind {
        Kind::Text => query.said.clone(),
        Kind::Item(_) => format!("Captions for {}", query.said),
        Kind::Image => {
            let file = Path::new(&query.said).file_name().unwrap_or_default();
            format!("Captions for {}", file.to_string_lossy())
        }
    };
    Ok(page::page(&title, STYLE, &body))
}
