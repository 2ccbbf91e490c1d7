//! What was found as one page that needs nothing else.

use std::fmt::Write;

use anyhow::Result;
use nextpair_data::dataset::Dataset;
use nextpair_models::Rows;
use rayon::prelude::*;

use super::query::{Kind, Query};
use super::report::Report;
use crate::card::Card;
use crate::numbers::grouped;
use crate::page;

const STYLE: &str = "
h2 { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline }
h2 .rank { font-size: 1.05rem; font-weight: 650; color: var(--ink) }
h2 .score { font-variant-numeric: tabular-nums; margin-left: auto }
.own { color: var(--mark); font-weight: 600 }
.asked { max-width: 24rem; margin: 0 0 1.5rem; border: 1px solid var(--line); border-radius: 8px; overflow: hidden }
.captions { grid-template-columns: 1fr; max-width: 48rem }
.captions article { display: grid; grid-template-columns: 9rem 1fr }
.captions blockquote { margin: .3rem 1rem .8rem; font-size: 1.05rem; overflow-wrap: anywhere }
@media (max-width: 30rem) {
  body { margin-top: 1rem } .captions article { grid-template-columns: 6.5rem 1fr } .captions h2 { margin-left: .7rem }
  .captions blockquote { margin-left: .7rem; font-size: 1rem }
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
        writeln!(body, "<div class=\"asked\">{}</div>", page::frame(thumbnail)?)?;
    }
    let cards: Vec<Card> =
        report.results.par_iter().map(|found| Card::of(dataset, found.item)).collect();
    let class = match query.wanted() {
        Rows::Images => "images",
        Rows::Texts => "captions",
    };
    writeln!(body, "<main class=\"{class}\">")?;
    for (found, Card { item, thumbnail }) in report.results.iter().zip(&cards) {
        let (frame, name) = (page::frame(thumbnail)?, page::name(item));
        let (rank, score) = (found.rank, found.score);
        let own = match query.kind == Kind::Item(found.item) {
            true => "<span class=\"own\">its own</span>",
            false => "",
        };
        let head = format!(
            "<h2><span class=\"rank\">{rank}</span><span>{name}</span>{own}\
             <span class=\"score\">{score:.4}</span></h2>"
        );
        let text = match query.wanted() {
            Rows::Images => page::captions(item),
            Rows::Texts => {
                let caption = page::escaped(found.caption.as_deref().unwrap_or_default());
                format!("<blockquote>{caption}</blockquote>")
            }
        };
        writeln!(body, "<article>{frame}<div>{head}{text}</div></article>")?;
    }
    body.push_str("</main>");
    Ok(page::page(&query.said, STYLE, &body))
}
