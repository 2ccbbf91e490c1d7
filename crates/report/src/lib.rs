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

pub mod card;
mod chart;
mod error;
mod files;
#[cfg(test)]
#[path = "../../scenario/src/fixture.rs"]
mod fixture;
pub mod page;
mod picks;
mod pool_map;
mod rehearsal;
mod sections;
mod table;
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
pub use rehearsal::write_rehearsal;
use sections::Sections;

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
    /// The device of the model behind the map.
    pub device: Device,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            compare: false,
            dataset: None,
            price: None,
            words: Vec::new(),
            device: Device::Cpu,
        }
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

/// Writes the report of experiments into a folder, which is created if necessary.
pub fn write(
    studies: &[Study],
    options: &Options,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Written, Error> {
    if studies.is_empty() {
        return Err(Error::setting("report", "there is no experiment to report on"));
    }
    if let Some(price) = options.price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
        return Err(Error::setting("price", format!("{price} is not a price")));
    }
    let about = about(studies, options)?;
    let studies = about.as_deref().unwrap_or(studies);
    let analysis = Analysis::of(studies, options.compare, options.price)?;
    fs::create_dir_all(out).map_err(|e| Error::io(out, e))?;
    let page = out.join("report.html");
    AtomicFile::check(&page)?;
    let mut sections = Sections::default();
    sections.compare(&analysis.runs);
    for (at, evidence) in analysis.runs.iter().enumerate() {
        let group = if options.compare { &studies[at..=at] } else { studies };
        let one_of_many = analysis.runs.len() > 1;
        sections.run(evidence, group, options, one_of_many.then_some(at), progress)?;
    }
    let Sections { html, charts, left_out, .. } = sections;
    let style = style::variables() + style::CHART + include_str!("report.css");
    let title = sections::title(&analysis.runs);
    put(&page, page::page(&title, &style, &html).as_bytes())?;
    put(&out.join("results.json"), files::json(&analysis, out)?.as_bytes())?;
    put(&out.join("results.csv"), files::csv(studies, &analysis).as_bytes())?;
    write_charts(&charts, out, progress)?;
    Ok(Written { page, analysis, left_out })
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
