//! From what people have to one dataset: every kind of source, one way in.
//!
//! An [`Importer`] reads its source and hands entries to a [`Sink`], which checks them, looks at
//! their images, notes what is odd and writes the dataset. Adding a kind is one file here, and a
//! subcommand for its flags.

mod bottom_up;
mod captions;
mod coco;
mod embeddings;
mod findings;
mod flickr;
mod folder;
pub(crate) mod json;
mod karpathy;
mod same_image;
mod scan;
mod scenes;
mod sink;
mod table;
mod webdataset;

use std::collections::BTreeMap;
use std::path::Path;

pub use bottom_up::BottomUp;
pub use coco::Coco;
pub use embeddings::Embeddings;
pub use findings::{Findings, Tally};
pub use flickr::Flickr;
pub use folder::Folder;
pub use karpathy::Karpathy;
pub use scan::Scan;
pub use scenes::import_scenes;
pub use sink::{Entry, Sink};
pub use table::Table;
pub use webdataset::WebDataset;

use crate::dataset::{DEV, Draft, Manifest, TEST, TRAIN};
use crate::{Error, Progress};

/// A kind of source.
pub trait Importer {
    /// What was imported, in words, for the manifest.
    fn source(&self) -> String;

    /// Hands everything to the sink. An error here is one that no entry can be blamed for.
    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error>;
}

/// What came in.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Items, images and captions of every split; `None` are items without a split.
    pub splits: BTreeMap<Option<String>, Counts>,
    /// What was left out, and what was odd.
    pub findings: Findings,
}

/// How much of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All items.
    pub items: usize,
    /// Items with an image, or with features of one.
    pub images: usize,
    /// Captions of all items.
    pub captions: usize,
    /// Images without captions.
    pub unpaired_images: usize,
    /// Captions, or features of them, without an image.
    pub unpaired_texts: usize,
}

/// Imports a source as the new dataset `out`, which appears when it is whole. Bad entries are an
/// error that lists them, unless they are to be skipped.
pub fn import(
    importer: &dyn Importer,
    out: &Path,
    skip_bad: bool,
    progress: &dyn Progress,
) -> Result<Summary, Error> {
    let draft = Draft::open(out)?;
    draft.clear()?;
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or("dataset");
    let manifest = Manifest::new(name, &importer.source());
    let mut sink = Sink::new(draft.folder(), manifest, skip_bad, progress)?;
    importer.read(&mut sink)?;
    let (manifest, summary) = sink.finish(out)?;
    draft.finish(&manifest)?;
    Ok(summary)
}

/// Whether a name is that of an image file.
fn has_image_extension(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let known = ["jpg", "jpeg", "png", "webp", "gif", "bmp"];
    known.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// What kinds without splits of their own are told by names: `val2014`, `validation`, `train-000`.
fn split_in_name(name: &str) -> Option<&'static str> {
    let word = name.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "train" | "training" => Some(TRAIN),
        "dev" | "val" | "valid" | "validation" => Some(DEV),
        "test" | "testing" => Some(TEST),
        _ => None,
    }
}
