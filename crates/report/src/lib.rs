//! A page that a budget owner and a reviewer both want to read, with its numbers and charts as
//! files beside it.
//!
//! ```text
//! OUT/
//!   report.html     all of it, in one file that needs nothing else
//!   results.json    every number of it
//!   results.csv     every measurement, one a line
//!   *.svg *.png     every chart
//! ```
//!
//! The files depend on the experiments alone: not on the time of day, nor on the number of
//! threads.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bars;
mod bought;
pub mod card;
mod chart;
mod error;
mod files;
#[cfg(test)]
#[path = "../../scenario/src/fixture.rs"]
mod fixture;
mod gallery;
mod live;
mod memory;
pub mod page;
mod pool_map;
mod rehearsal;
mod sections;
mod sheet;
mod table;
mod tiles;
mod tsne;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::Dataset;
use nextpair_data::{AtomicFile, Progress};
use nextpair_models::Device;
use nextpair_scenario::{Analysis, Study};

use chart::{Chart, style};
pub use error::Error;
pub use gallery::{PickedBatch, ShownNear, ShownPick, ShownReason, gallery_page};
pub use live::{LiveReport, live_news};
use memory::Memory;
pub use rehearsal::write_rehearsal;
use sections::Sections;
pub use sheet::contact_sheet;

/// The most characters of a currency.
const LONGEST_CURRENCY: usize = 8;

/// Settings of a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Put experiments side by side instead of pooling them.
    pub compare: bool,
    /// The dataset, if it is not at the path in the experiment.
    pub dataset: Option<PathBuf>,
    /// The price of pairing an item, if it differs from that of the experiment.
    pub price: Option<f64>,
    /// Count only test queries that have one of these words; all if there are none.
    pub words: Vec<String>,
    /// The currency of the price, as a code or a symbol.
    pub currency: Option<String>,
    /// The most pictures of items on the page.
    pub pictures: usize,
    /// The device of the model behind the map.
    pub device: Device,
}

/// The usual number of pictures: with them, the page of a large experiment stays under 9 MB.
pub const PICTURES: usize = 500;

impl Default for Options {
    fn default() -> Self {
        let (dataset, price, currency) = (None, None, None);
        Options {
            compare: false,
            dataset,
            price,
            currency,
            words: Vec::new(),
            pictures: PICTURES,
            device: Device::Cpu,
        }
    }
}

impl Options {
    /// Rejects settings that are wrong for every experiment.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(price) = self.price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            return Err(Error::setting("price", format!("{price} is not a price")));
        }
        if let Some(currency) = self.currency.as_deref().map(str::trim)
            && !(1..=LONGEST_CURRENCY).contains(&currency.chars().count())
        {
            let what = format!("'{currency}' is not a currency, such as EUR or €");
            return Err(Error::setting("currency", what));
        }
        Ok(())
    }
}

/// A written report.
#[derive(Clone, Debug)]
pub struct Written {
    /// The path of the page.
    pub page: PathBuf,
    /// Its numbers.
    pub analysis: Analysis,
    /// Omitted sections, with reasons.
    pub left_out: Vec<String>,
}

/// A report that is not written yet.
struct Composed {
    html: String,
    analysis: Analysis,
    charts: Vec<Chart>,
    left_out: Vec<String>,
}

/// Writes the report of experiments into a folder, which is created if necessary.
pub fn write(
    studies: &[Study],
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Written, Error> {
    let about = about(studies, options)?;
    let studies = about.as_deref().unwrap_or(studies);
    let analysis = analysed(studies, options)?;
    fs::create_dir_all(out).map_err(|e| Error::io(out, e))?;
    let page = out.join("report.html");
    AtomicFile::check(&page)?;
    let Composed { html, analysis, charts, left_out } =
        compose(studies, analysis, options, &Memory::default(), None, progress)?;
    put(&page, html.as_bytes())?;
    put(&out.join("results.json"), files::json(&analysis, out)?.as_bytes())?;
    put(&out.join("results.csv"), files::csv(studies, &analysis).as_bytes())?;
    write_charts(&charts, out, progress)?;
    Ok(Written { page, analysis, left_out })
}

fn analysed(studies: &[Study], options: &Options) -> Result<Analysis, Error> {
    if studies.is_empty() {
        return Err(Error::setting("report", "there is no experiment to report on"));
    }
    options.check()?;
    let currency = options.currency.as_deref().map(str::trim);
    let mut analysis = Analysis::of(studies, options.compare, options.price)?;
    for run in &mut analysis.runs {
        let tests = run.other_tests.iter_mut();
        tests.for_each(|test| test.currency = currency.map(str::to_owned));
        run.currency = currency.map(str::to_owned);
    }
    Ok(analysis)
}

/// Makes a report. `live` is the line on top of a page that renews itself.
fn compose(
    studies: &[Study],
    analysis: Analysis,
    options: &Options,
    memory: &Memory,
    live: Option<&str>,
    progress: &dyn Progress,
) -> Result<Composed, Error> {
    let mut sections = Sections::of(analysis.runs.len());
    sections.compare(&analysis, studies);
    for (at, evidence) in analysis.runs.iter().enumerate() {
        let group = if options.compare { &studies[at..=at] } else { studies };
        let one_of_many = analysis.runs.len() > 1;
        let number = one_of_many.then_some(at);
        sections.run(evidence, group, options, number, (memory, progress))?;
    }
    let title = sections::title(&analysis.runs);
    let body = format!(
        "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n{}<header><h1>{}</h1></header>\n\
         <div class=\"columns\">{}<main id=\"main\" tabindex=\"-1\">\n{}</main></div>\n",
        live.unwrap_or_default(),
        page::escaped(&title),
        sections.contents(),
        sections.html
    );
    let style =
        style::variables() + style::CHART + include_str!("assets/report.css") + gallery::STYLE;
    let script = script(if live.is_some() { include_str!("assets/live.js") } else { "" });
    let html = page::document(&title, &style, &body, &script);
    let Sections { charts, left_out, .. } = sections;
    Ok(Composed { html, analysis, charts, left_out })
}

/// Returns the script of the page. It is our own, a few hundred lines: the charts are drawn here as SVG, so that
/// they can be read without it, and a library would draw them again, at ten times the size. `more` comes before
/// it starts.
fn script(more: &str) -> String {
    let parts = [
        include_str!("assets/dom.js"),
        include_str!("assets/charts.js"),
        include_str!("assets/tables.js"),
        include_str!("assets/contents.js"),
        include_str!("assets/gallery.js"),
        include_str!("assets/map.js"),
        more,
        include_str!("assets/start.js"),
    ];
    format!("(() => {{\n\"use strict\";\n{}}})();\n", parts.join("\n"))
}

/// Returns the experiments with the queries that count, if not all do.
fn about(studies: &[Study], options: &Options) -> Result<Option<Vec<Study>>, Error> {
    if options.words.is_empty() {
        return Ok(None);
    }
    let of_study = |study: &Study| {
        let own = study.experiment.items_in(&study.folder);
        let dataset = Dataset::open(options.dataset.as_deref().unwrap_or(&own))?;
        Ok(study.about(&options.words, dataset)?)
    };
    studies.iter().map(of_study).collect::<Result<_, Error>>().map(Some)
}

fn write_charts(charts: &[Chart], out: &Path, progress: &dyn Progress) -> Result<(), Error> {
    progress.start("charts", charts.len() as u64);
    for chart in charts {
        put(&out.join(format!("{}.svg", chart.name)), chart.standalone().as_bytes())?;
        let path = out.join(format!("{}.png", chart.name));
        put(&path, &chart.png().map_err(|what| Error::file(&path, what))?)?;
        progress.advance(1);
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(AtomicFile::write_whole(path, bytes)?)
}

#[cfg(test)]
mod tests;
