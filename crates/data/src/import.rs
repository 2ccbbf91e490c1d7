//! Importers: each turns one kind of source into a dataset.
//!
//! An [`Importer`] reads its source and hands entries to a [`Sink`]. The sink checks them and their
//! images, notes oddities and writes the dataset. A new kind needs one file here and a subcommand
//! for its flags.

mod bottom_up;
mod captions;
mod coco;
mod drawn;
mod embeddings;
mod findings;
mod flickr;
mod folder;
mod hugging_face;
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
pub use drawn::SplitSource;
pub use embeddings::Embeddings;
pub use findings::{Findings, Tally};
pub use flickr::Flickr;
pub use folder::Folder;
pub use hugging_face::HuggingFace;
pub use karpathy::Karpathy;
pub(crate) use same_image::same_bytes;
pub use scan::Scan;
pub use scenes::{import_scenes, scenes_kept};
pub use sink::{Entry, Leniency, Sink};
pub use table::Table;
pub use webdataset::WebDataset;

use crate::dataset::{DEV, Draft, Manifest, TEST, TRAIN};
use crate::{Error, Progress};

/// A kind of source.
pub trait Importer {
    /// Describes the source in words, for the manifest.
    fn source(&self) -> String;

    /// Hands every entry to the sink. Returns an error only for problems that are not those of a
    /// single entry.
    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error>;
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Counts per split; `None` stands for items without a split.
    pub splits: BTreeMap<Option<String>, Counts>,
    /// Bad entries and oddities.
    pub findings: Findings,
}

/// Numbers of items, images and captions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of items.
    pub items: usize,
    /// Items with an image, or with features of one.
    pub images: usize,
    /// Total number of captions.
    pub captions: usize,
    /// Images without captions.
    pub unpaired_images: usize,
    /// Captions without an image, or features of such captions.
    pub unpaired_texts: usize,
}

/// Imports a source as the new dataset `out`, which appears only when it is complete. Bad entries
/// are an error that lists them, unless `skip_bad` is set.
pub fn import(
    importer: &dyn Importer,
    out: &Path,
    skip_bad: bool,
    progress: &dyn Progress,
) -> Result<Summary, Error> {
    let leniency = Leniency { skip_bad, ..Leniency::default() };
    import_leniently(importer, out, leniency, progress)
}

/// Like [`import`], and says what else is forgiven.
pub fn import_leniently(
    importer: &dyn Importer,
    out: &Path,
    leniency: Leniency,
    progress: &dyn Progress,
) -> Result<Summary, Error> {
    let draft = Draft::open(out)?;
    draft.clear()?;
    let name = out.file_name().and_then(|name| name.to_str()).unwrap_or("dataset");
    let manifest = Manifest::new(name, &importer.source());
    let mut sink = Sink::new((out, draft.folder()), manifest, leniency, progress)?;
    importer.read(&mut sink)?;
    let (manifest, summary) = sink.finish()?;
    draft.finish(&manifest)?;
    Ok(summary)
}

/// The kind of finding for a column that is read by nothing.
const UNUSED_COLUMN: &str = "column that is not used";

/// Returns whether a name is that of an image file.
fn has_image_extension(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let known = ["jpg", "jpeg", "png", "webp", "gif", "bmp"];
    known.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Guesses the split from a name such as `val2014`, `validation` or `train-000`, for sources
/// without splits of their own.
fn split_in_name(name: &str) -> Option<&'static str> {
    let word = name.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "train" | "training" => Some(TRAIN),
        "dev" | "val" | "valid" | "validation" => Some(DEV),
        "test" | "testing" => Some(TEST),
        _ => None,
    }
}
