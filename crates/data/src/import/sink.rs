//! The sink of every importer: checks, counts and writes entries.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::iter;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::findings::Log;
use super::same_image::{self, Print, SeenImages};
use super::{Counts, Summary};
use crate::dataset::{DrawnSplits, FeatureSet, ITEMS, Item, Items, Manifest, Per, check_caption};
use crate::{Error, Progress, Side, npy, picture};

/// Entries whose images are checked together.
const BATCH: usize = 1024;

/// An item as the importer found it.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The item.
    pub item: Item,
    /// File and line or row, for error messages.
    pub place: String,
    /// The item's row in the image features, if the source has some.
    pub image_row: Option<usize>,
    /// The item's row in the text features, if the source has one per item.
    pub text_row: Option<usize>,
}

/// What an import forgives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leniency {
    /// Leave out bad entries instead of refusing the import.
    pub skip_bad: bool,
    /// Keep items whose image files are missing: they are known by name, as by their features.
    pub images_optional: bool,
}

/// Bad entries that end an import which may not skip any.
const ENOUGH_BAD: usize = 1000;

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { error, .. } if error.kind() == std::io::ErrorKind::NotFound)
}

/// Takes entries and writes a dataset from the good ones.
pub struct Sink<'a> {
    /// Where the dataset will be; errors name it.
    out: PathBuf,
    folder: PathBuf,
    manifest: Manifest,
    leniency: Leniency,
    /// Splits that are drawn from the training items.
    drawn: Option<DrawnSplits>,
    progress: &'a dyn Progress,
    items: BufWriter<File>,
    log: Log,
    pending: Vec<Entry>,
    ids: HashSet<String>,
    captions: HashSet<u64>,
    images: SeenImages,
    /// What the text features have rows for.
    per_text: Per,
    rows: BTreeMap<Side, Vec<i64>>,
    available: BTreeMap<Side, usize>,
    splits: BTreeMap<Option<String>, Counts>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        (out, folder): (&Path, &Path),
        manifest: Manifest,
        leniency: Leniency,
        progress: &'a dyn Progress,
    ) -> Result<Self, Error> {
        let path = folder.join(ITEMS);
        let items = File::create(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Sink {
            out: out.to_path_buf(),
            folder: folder.to_path_buf(),
            manifest,
            leniency,
            drawn: None,
            progress,
            items: BufWriter::new(items),
            log: Log::create(&folder.join("import.jsonl"))?,
            pending: Vec::new(),
            ids: HashSet::new(),
            captions: HashSet::new(),
            images: SeenImages::default(),
            per_text: Per::Item,
            rows: BTreeMap::new(),
            available: BTreeMap::new(),
            splits: BTreeMap::new(),
        })
    }

    /// Draws splits for the training items that come from now on.
    pub(super) fn draw(&mut self, splits: DrawnSplits) {
        self.drawn = Some(splits);
    }

    /// From now on the text row of an item is that of its captions. Otherwise an item may have one without
    /// captions.
    pub(super) fn text_rows_of_captions(&mut self) {
        self.per_text = Per::Caption;
    }

    /// Sets the folder of the image paths, so that the image files are checked.
    pub fn images_in(&mut self, folder: &Path) -> Result<(), Error> {
        let whole = folder.canonicalize().map_err(|e| Error::io(folder, e))?;
        if !whole.is_dir() {
            return Err(Error::format(folder, "is not a folder of images"));
        }
        self.manifest.images = Some(whole);
        Ok(())
    }

    /// Creates a folder for images that are not separate files in the source.
    pub(super) fn own_images(&mut self) -> Result<PathBuf, Error> {
        let folder = self.folder.join("images");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        self.manifest.images = Some("images".into());
        Ok(folder)
    }

    /// Adds features that came with the source and stay where they are: files with `available` rows
    /// in total. Entries name their rows.
    pub fn features(
        &mut self,
        name: &str,
        side: Side,
        files: &[PathBuf],
        available: usize,
    ) -> Result<(), Error> {
        let whole = |file: &PathBuf| match file.strip_prefix(&self.folder) {
            Ok(own) => Ok(own.to_path_buf()),
            Err(_) => file.canonicalize().map_err(|e| Error::io(file, e)),
        };
        let files = files.iter().map(whole).collect::<Result<_, _>>()?;
        let (name, rows, made_by) = (name.to_owned(), None, None);
        let per = if side == Side::Text { self.per_text } else { Per::Item };
        let set = FeatureSet { name, side, per, files, rows, made_by, digests: Default::default() };
        self.manifest.features.push(set);
        self.available.insert(side, available);
        Ok(())
    }

    /// The items written so far.
    pub(super) fn written(&mut self) -> Result<Items, Error> {
        self.write_pending()?;
        let path = self.folder.join(ITEMS);
        self.items.flush().map_err(|e| Error::io(&path, e))?;
        Items::open(&path)
    }

    /// Returns whether the import will fail: there are bad entries and none may be skipped.
    pub(super) fn is_refused(&self) -> bool {
        !self.leniency.skip_bad && self.log.findings.bad_count() > 0
    }

    /// Returns whether items are kept whose image files are missing.
    pub(super) fn images_are_optional(&self) -> bool {
        self.leniency.images_optional
    }

    /// Adds image features made during the import: `available` rows, and the row of every written
    /// item, -1 for none.
    pub(super) fn image_rows(
        &mut self,
        name: &str,
        file: PathBuf,
        rows: Vec<i64>,
        available: usize,
    ) -> Result<(), Error> {
        if self.manifest.features.iter().any(|set| set.side == Side::Image) {
            let what = format!("the source has image features of its own beside {name}");
            return Err(Error::Argument { name: "features", what });
        }
        self.features(name, Side::Image, &[file], available)?;
        self.rows.insert(Side::Image, rows);
        Ok(())
    }

    /// Creates a folder for feature files that are made during the import.
    pub(super) fn own_features(&self) -> Result<PathBuf, Error> {
        let folder = self.folder.join("features");
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        Ok(folder)
    }

    /// Begins a phase of the work.
    pub fn start(&self, phase: &'static str, total: usize) {
        self.progress.start(phase, total as u64);
    }

    /// Completes part of the phase.
    pub fn advance(&self, steps: usize) {
        self.progress.advance(steps as u64);
    }

    /// Records a bad entry of the source at `place`.
    ///
    /// # Errors
    /// If none may be skipped, and these are enough to tell what is wrong.
    pub fn bad(&mut self, what: &'static str, place: &str, detail: &str) -> Result<(), Error> {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.log.bad(what, &format!("{place}{colon}{detail}"))?;
        if self.is_refused() && self.log.findings.bad_count() == ENOUGH_BAD {
            let listing = self.log.findings.listing() + "\n  the rest was not read";
            return Err(Error::Entries { path: self.out.clone(), count: ENOUGH_BAD, listing });
        }
        Ok(())
    }

    /// Records an oddity that is not an error.
    pub fn note(&mut self, what: &'static str, detail: &str) -> Result<(), Error> {
        self.log.note(what, detail)
    }

    /// Keeps the first `most` captions of an image, and notes if there were more.
    pub fn at_most(
        &mut self,
        most: usize,
        mut captions: Vec<String>,
        image: &str,
    ) -> Result<Vec<String>, Error> {
        if captions.len() > most {
            let detail = format!("{image}: {} captions", captions.len());
            self.note("image with more captions than are kept", &detail)?;
            captions.truncate(most);
        }
        Ok(captions)
    }

    /// Returns an error if the import should end now.
    pub(super) fn check_stopped(&self) -> Result<(), Error> {
        if self.progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Takes an entry; returns `false` if it is refused.
    pub fn entry(&mut self, mut entry: Entry) -> Result<bool, Error> {
        self.check_stopped()?;
        self.clean_captions(&mut entry)?;
        let item = &entry.item;
        if let Err(what) = item.check() {
            self.bad("impossible entry", &entry.place, &what)?;
            return Ok(false);
        }
        if self.ids.contains(&item.id) {
            self.bad("id seen before", &entry.place, &item.id.clone())?;
            return Ok(false);
        }
        self.ids.insert(item.id.clone());
        self.pending.push(entry);
        if self.pending.len() == BATCH {
            self.write_pending()?;
        }
        Ok(true)
    }

    /// Trims captions, drops bad ones, and notes duplicates.
    fn clean_captions(&mut self, entry: &mut Entry) -> Result<(), Error> {
        let (place, captions) = (&entry.place, std::mem::take(&mut entry.item.captions));
        let mut own = HashSet::new();
        for (at, caption) in captions.into_iter().enumerate() {
            if let Err(what) = check_caption(&caption) {
                let detail = format!("caption {} of {}: {what}", at + 1, entry.item.id);
                self.bad("impossible caption", place, &detail)?;
                continue;
            }
            let caption = match caption.trim() {
                trimmed if trimmed.len() == caption.len() => caption,
                trimmed => trimmed.to_owned(),
            };
            let mut hasher = DefaultHasher::new();
            caption.hash(&mut hasher);
            if !own.insert(caption.clone()) {
                let detail = format!("{}: {caption}", entry.item.id);
                self.log.note("caption twice on one image", &detail)?;
            } else if !self.captions.insert(hasher.finish()) {
                let detail = format!("{}: {caption}", entry.item.id);
                self.log.note("caption also on another image", &detail)?;
            }
            entry.item.captions.push(caption);
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<(), Error> {
        let entries = std::mem::take(&mut self.pending);
        let folder = self.manifest.images.as_ref().map(|images| self.folder.join(images));
        let progress = self.progress;
        let looked: Vec<Option<Result<Print, Error>>> = entries
            .par_iter()
            .map(|entry| {
                let path = folder.as_ref()?.join(entry.item.image.as_ref()?);
                let print = |_| same_image::print(&path);
                if progress.stopped() {
                    return None;
                }
                Some(picture::probe(&path).and_then(print))
            })
            .collect();
        self.check_stopped()?;
        for (entry, looked) in entries.into_iter().zip(looked) {
            match (looked, &folder, &entry.item.image) {
                (Some(Err(error)), _, Some(image))
                    if is_missing(&error) && self.leniency.images_optional =>
                {
                    let detail = format!("{}: {image}", entry.item.id);
                    self.log.note("image file that is not there", &detail)?;
                }
                (Some(Err(error)), ..) => {
                    self.bad("bad or missing image", &entry.place, &error.to_string())?;
                    continue;
                }
                (Some(Ok(print)), Some(folder), Some(image)) => {
                    if let Some(first) = self.images.twin(folder, image, print) {
                        let detail = format!("{image} is {first}");
                        self.log.note("image file with the same bytes as another", &detail)?;
                    }
                }
                _ => {}
            }
            self.write(entry)?;
        }
        Ok(())
    }

    fn write(&mut self, entry: Entry) -> Result<(), Error> {
        let Entry { mut item, image_row, text_row, .. } = entry;
        let has_image = item.image.is_some() || image_row.is_some();
        let has_text = !item.captions.is_empty() || text_row.is_some();
        // Half a pair tests nothing, and would be lost to the pool.
        if let Some(drawn) = self.drawn.filter(|_| has_image && has_text)
            && let Some(split) = drawn.split_of(&item.id, item.split.as_deref())
        {
            item.split = Some(split.to_owned());
        }
        let fail = |e: std::io::Error| Error::io(&self.folder.join(ITEMS), e);
        serde_json::to_writer(&mut self.items, &item).map_err(|e| fail(e.into()))?;
        self.items.write_all(b"\n").map_err(fail)?;
        let texts = match self.per_text {
            Per::Item => 1,
            Per::Caption => item.captions.len(),
        };
        for (side, row, count) in [(Side::Image, image_row, 1), (Side::Text, text_row, texts)] {
            let row = row.map_or(-1, |row| row as i64);
            self.rows.entry(side).or_default().extend(iter::repeat_n(row, count));
        }
        let counts = self.splits.entry(item.split).or_default();
        counts.items += 1;
        counts.images += usize::from(has_image);
        counts.captions += item.captions.len();
        counts.unpaired_images += usize::from(has_image && !has_text);
        counts.unpaired_texts += usize::from(has_text && !has_image);
        self.manifest.items += 1;
        self.manifest.captions += item.captions.len();
        Ok(())
    }

    /// Completes the dataset.
    pub(super) fn finish(mut self) -> Result<(Manifest, Summary), Error> {
        self.write_pending()?;
        let synced = self.items.flush().and_then(|()| self.items.get_ref().sync_all());
        synced.map_err(|e| Error::io(&self.folder.join(ITEMS), e))?;
        for (split, share) in self.drawn.iter().flat_map(DrawnSplits::shares) {
            if share > 0.0 && !self.splits.contains_key(&Some(split.to_owned())) {
                let what = "split of which no item was drawn";
                self.log.note(what, &format!("{split}: {share} of the paired items is too few"))?;
            }
        }
        let findings = self.log.finish()?;
        let count = findings.bad_count();
        if count > 0 && !self.leniency.skip_bad {
            let (path, listing) = (self.out, findings.listing());
            return Err(Error::Entries { path, count, listing });
        }
        if self.manifest.items == 0 {
            return Err(Error::format(
                &self.out,
                "nothing to import: the source has no usable entry",
            ));
        }
        for set in &mut self.manifest.features {
            let (rows, available) = (&self.rows[&set.side], self.available[&set.side]);
            let in_order = rows.iter().copied().eq(0..available as i64);
            if !in_order {
                set.rows = Some(write_rows(&self.folder, &set.name, set.side, rows)?);
            }
        }
        Ok((self.manifest, Summary { splits: self.splits, findings }))
    }
}

/// Writes the row of every item to a file.
fn write_rows(folder: &Path, name: &str, side: Side, rows: &[i64]) -> Result<PathBuf, Error> {
    let relative = PathBuf::from(format!("features/{name}.{side}.rows.npy"));
    let path = folder.join(&relative);
    let write = || {
        std::fs::create_dir_all(folder.join("features"))?;
        let mut file = BufWriter::new(File::create(&path)?);
        npy::write_i64(&mut file, rows)?;
        file.flush()?;
        file.get_ref().sync_all()
    };
    write().map_err(|e| Error::io(&path, e))?;
    Ok(relative)
}
