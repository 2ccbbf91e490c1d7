//! The results of a search, as a table and as JSON.

use std::collections::HashSet;
use std::fmt::Write;

use crate::data::Side;
use crate::data::dataset::Dataset;
use crate::data::text::tokenize;
use serde::Serialize;

use super::query::{Kind, Query};
use crate::program::trained::Trained;

/// The output of `search`.
#[derive(Serialize)]
pub(super) struct Report {
    /// Kind of the query: `text`, `image` or `item`.
    by: &'static str,
    query: String,
    unknown_words: Vec<String>,
    /// Kind of the candidates: `images` or `captions`.
    pub(super) searched: &'static str,
    /// Number of candidates.
    pub(super) among: usize,
    pub(super) synthetic: bool,
    pub(super) results: Vec<Found>,
}

/// One result.
#[derive(Serialize)]
pub(super) struct Found {
    pub(super) rank: usize,
    pub(super) score: f64,
    pub(super) id: String,
    image: Option<String>,
    /// The caption found, or that of the image found which has most words of the query.
    pub(super) caption: Option<String>,
    #[serde(skip)]
    pub(super) item: usize,
}

impl Found {
    /// Creates a result from an image (as an item) or a caption.
    pub(super) fn new(
        dataset: &Dataset,
        query: &Query,
        which: usize,
        rank: usize,
        score: f64,
    ) -> Self {
        let items = dataset.items();
        let (index, at) = match query.wanted() {
            Side::Image => (which, nearest(&items.get(which).captions, &query.said)),
            Side::Text => {
                let item = items.item_of_caption(which);
                (item, which - items.captions_of(item).start)
            }
        };
        let mut item = items.get(index);
        let caption = (at < item.captions.len()).then(|| item.captions.swap_remove(at));
        Found { rank, score, id: item.id, image: item.image, caption, item: index }
    }
}

/// Returns which caption has most words of a text; the first of several.
fn nearest(captions: &[String], text: &str) -> usize {
    let wanted: HashSet<String> = tokenize(text).into_iter().collect();
    let shared = |caption: &String| {
        tokenize(caption)
            .into_iter()
            .filter(|word| wanted.contains(word))
            .collect::<HashSet<_>>()
            .len()
    };
    let counts: Vec<usize> = captions.iter().map(shared).collect();
    let most = counts.iter().max();
    most.and_then(|most| counts.iter().position(|count| count == most)).unwrap_or(0)
}

impl Report {
    pub(super) fn new(trained: &Trained, query: &Query, among: usize, results: Vec<Found>) -> Self {
        Report {
            by: match query.kind {
                Kind::Text => "text",
                Kind::Image => "image",
                Kind::Item(_) => "item",
            },
            query: query.said.clone(),
            unknown_words: query.unknown_words.clone(),
            searched: match query.wanted() {
                Side::Image => "images",
                Side::Text => "captions",
            },
            among,
            synthetic: trained.dataset().manifest().synthetic,
            results,
        }
    }

    /// Formats the results as a table.
    pub(super) fn table(&self) -> String {
        let image = |found: &Found| one_line(found.image.as_deref().unwrap_or("-"));
        let width = |head: &str, of: &dyn Fn(&Found) -> String| {
            let widths = self.results.iter().map(|found| of(found).chars().count());
            widths.max().unwrap_or(0).max(head.len())
        };
        let id = |found: &Found| one_line(&found.id);
        let (id_width, image_width) = (width("id", &id), width("image", &image));
        let head = format!("rank     score  {:id_width$}  {:image_width$}  caption", "id", "image");
        let mut text = head + "\n";
        for found in &self.results {
            let caption = one_line(found.caption.as_deref().unwrap_or("-"));
            let line = format!(
                "{:>4}  {:>8.5}  {:id_width$}  {:image_width$}  {caption}",
                found.rank,
                found.score,
                id(found),
                image(found)
            );
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// Replaces control characters, which would break the table or control the terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
