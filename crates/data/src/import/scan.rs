//! SCAN's `*_precomp` folders, and the similar ones of VSE++ and IMRAM: per split a file of
//! features, a file of captions and, optionally, a file of ids.
//!
//! The COCO folder is published as `train` (113,287 images, one row and one id each), `dev`, `test`
//! and `testall` (whose rows, ids or both are repeated for every caption). Its `train` holds the
//! 82,783 training images and 30,504 `restval` ones, which only Karpathy's file tells apart.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Entry, Importer, Sink, has_image_extension, json};
use crate::dataset::{Item, TRAIN, check_caption};
use crate::lines::{Line, Lines};
use crate::{Error, Side, npy};

/// A `*_precomp` folder.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The folder.
    pub folder: PathBuf,
    /// The splits to import; empty means those of `train`, `dev` and `test` that exist.
    pub splits: Vec<String>,
    /// The folder of the images, if they are available and the ids are their names.
    pub image_dir: Option<PathBuf>,
    /// Karpathy's JSON file, to leave out COCO's `restval` images as the paper does.
    pub karpathy: Option<PathBuf>,
}

/// The files of one split.
struct Part {
    split: String,
    features: PathBuf,
    captions: PathBuf,
    ids: Option<PathBuf>,
}

impl Importer for Scan {
    fn source(&self) -> String {
        format!("scan {}", self.folder.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let Some(folder) = &self.image_dir {
            sink.images_in(folder)?;
        }
        let restval = self.karpathy.as_deref().map(restval_ids).transpose()?;
        let parts = self.parts(sink)?;
        let (mut first_row, mut dropped, mut named) = (0, 0, false);
        for part in &parts {
            let seen = self.read_part(part, first_row, restval.as_ref(), sink)?;
            first_row += seen.rows;
            dropped += seen.dropped;
            named |= seen.named;
        }
        if let (Some(path), 0) = (&self.karpathy, dropped) {
            let what =
                "no restval image of it is among the ids; are they COCO's ids or file names?";
            return Err(Error::format(path, what));
        }
        if let (Some(folder), false) = (&self.image_dir, named) {
            return Err(Error::format(folder, "the ids are not names of images in it"));
        }
        let files: Vec<PathBuf> = parts.into_iter().map(|part| part.features).collect();
        sink.features("precomp", Side::Image, &files, first_row)
    }
}

/// Counts of one split.
struct SplitCounts {
    rows: usize,
    /// Number of images left out as restval.
    dropped: usize,
    /// Whether any id is the name of an image.
    named: bool,
}

impl Scan {
    fn parts(&self, sink: &mut Sink<'_>) -> Result<Vec<Part>, Error> {
        let file = |name: String| Some(self.folder.join(name)).filter(|path| path.exists());
        let usual = ["train", "dev", "test"].map(str::to_owned);
        let asked = if self.splits.is_empty() { &usual[..] } else { &self.splits };
        let mut parts = Vec::new();
        for split in asked {
            let features = [format!("{split}_ims.npy"), format!("{split}_feat.npy")];
            let [ims, feat] = features.map(file);
            if let (Some(ims), Some(feat)) = (&ims, &feat) {
                let what = format!("both {} and {} are there", ims.display(), feat.display());
                return Err(Error::format(&self.folder, what));
            }
            let captions = file(format!("{split}_caps.txt"));
            let ids = file(format!("{split}_ids.txt"));
            match (ims.or(feat), captions) {
                (Some(features), Some(captions)) => {
                    parts.push(Part { split: split.clone(), features, captions, ids });
                }
                (None, None) if self.splits.is_empty() => {}
                (features, _) => {
                    let missing = match features {
                        None => format!("{split}_ims.npy (or {split}_feat.npy)"),
                        Some(_) => format!("{split}_caps.txt"),
                    };
                    return Err(Error::format(&self.folder, format!("{missing} is missing")));
                }
            }
        }
        if parts.is_empty() {
            let what = "not a *_precomp folder: there is no train_ims.npy or train_feat.npy";
            return Err(Error::format(&self.folder, what));
        }
        if file("testall_caps.txt".to_owned()).is_some() {
            if self.splits.is_empty() {
                sink.note("split not imported (name it to import it)", "testall")?;
            }
            if self.karpathy.is_none() && parts.iter().any(|part| part.split == TRAIN) {
                let what = "COCO's train with its restval images, which the paper leaves out \
                            (--karpathy dataset_coco.json)";
                sink.note(what, TRAIN)?;
            }
        }
        Ok(parts)
    }

    /// Reads one split.
    fn read_part(
        &self,
        part: &Part,
        first_row: usize,
        restval: Option<&HashMap<String, String>>,
        sink: &mut Sink<'_>,
    ) -> Result<SplitCounts, Error> {
        let rows = npy::open(&part.features)?.rows();
        let captions = read_captions(&part.captions)?;
        let per_image = captions_per_image(rows, captions.len())
            .map_err(|what| Error::format(&part.captions, what))?;
        let ids = part.ids.as_deref().map(|path| read_ids(path, rows, per_image)).transpose()?;
        sink.start("reading", rows);
        let mut seen = SplitCounts { rows, dropped: 0, named: false };
        let mut pending: Option<Entry> = None;
        let mut captions = captions.into_iter().enumerate();
        for row in 0..rows {
            sink.advance(1);
            let mut taken = Vec::with_capacity(per_image);
            for (at, caption) in captions.by_ref().take(per_image) {
                match caption.and_then(|caption| check_caption(&caption).map(|()| caption)) {
                    Ok(caption) => taken.push(caption),
                    Err(what) => {
                        let place = format!("{}:{}", part.captions.display(), at + 1);
                        sink.bad("unreadable line", &place, &what)?;
                    }
                }
            }
            let id = match &ids {
                Some(ids) => ids[row].clone(),
                None => format!("{}-{row}", part.split),
            };
            if let Some(image) = restval.and_then(|restval| restval.get(&id)) {
                sink.note("restval image, left out as in the paper", image)?;
                seen.dropped += 1;
                continue;
            }
            // VSE++'s older files repeat the row of an image for each of its captions.
            if let Some(entry) = &mut pending
                && per_image == 1
                && entry.item.id == id
            {
                entry.item.captions.extend(taken);
                continue;
            }
            let image = self.image(&id);
            seen.named |= image.is_some();
            let item = Item { image, split: Some(part.split.clone()), id, captions: taken };
            let place = format!("{}: row {row}", part.features.display());
            let entry = Entry { item, place, image_row: Some(first_row + row), text_row: None };
            if let Some(complete) = pending.replace(entry) {
                sink.entry(complete)?;
            }
        }
        if let Some(last) = pending {
            sink.entry(last)?;
        }
        Ok(seen)
    }

    /// The image that an id names: the id itself, or with the usual extension if that file exists.
    fn image(&self, id: &str) -> Option<String> {
        if has_image_extension(id) {
            return Some(id.to_owned());
        }
        let name = format!("{id}.jpg");
        let exists = |folder: &PathBuf| folder.join(&name).is_file();
        self.image_dir.as_ref().is_some_and(exists).then_some(name)
    }
}

/// Captions per image, by the rule of the published loaders: there must be as many captions as
/// rows, or five times as many.
fn captions_per_image(rows: usize, captions: usize) -> Result<usize, String> {
    match captions {
        _ if captions == rows => Ok(1),
        _ if Some(captions) == rows.checked_mul(5) => Ok(5),
        _ => Err(format!(
            "{captions} captions for {rows} rows of features; there must be as many, or five times \
             as many"
        )),
    }
}

fn read_captions(path: &Path) -> Result<Vec<Result<String, String>>, Error> {
    let mut lines = Lines::open(path)?;
    let mut captions = Vec::new();
    while let Some(Line { text, .. }) = lines.next()? {
        captions.push(text);
    }
    Ok(captions)
}

/// Reads one id per row. The published files of dev and test repeat the id for every caption;
/// there, all ids of a row must be equal.
fn read_ids(path: &Path, rows: usize, per_image: usize) -> Result<Vec<String>, Error> {
    let ids: Vec<String> = Lines::all(path)?.iter().map(|line| line.trim().to_owned()).collect();
    if ids.len() == rows {
        return Ok(ids);
    }
    if Some(ids.len()) != rows.checked_mul(per_image) {
        let what = format!("{} ids for {rows} rows of features", ids.len());
        return Err(Error::format(path, what));
    }
    let mut of_rows = Vec::with_capacity(rows);
    for (row, of_row) in ids.chunks(per_image).enumerate() {
        if let Some(other) = of_row.iter().position(|id| *id != of_row[0]) {
            let what =
                format!("{}, but the captions of an image begin with {}", of_row[other], of_row[0]);
            let line = row * per_image + other + 1;
            return Err(Error::Line { path: path.to_path_buf(), line, what });
        }
        of_rows.push(of_row[0].clone());
    }
    Ok(of_rows)
}

/// Names by which an ids file may refer to the `restval` images: file name or COCO number.
fn restval_ids(path: &Path) -> Result<HashMap<String, String>, Error> {
    #[derive(Deserialize)]
    struct File {
        images: Vec<Image>,
    }
    #[derive(Deserialize)]
    struct Image {
        filename: String,
        split: String,
        cocoid: Option<i64>,
    }
    let file: File = json::read(path)?;
    let mut ids = HashMap::new();
    for image in file.images.into_iter().filter(|image| image.split == "restval") {
        if let Some(cocoid) = image.cocoid {
            ids.insert(cocoid.to_string(), image.filename.clone());
        }
        ids.insert(image.filename.clone(), image.filename);
    }
    Ok(ids)
}
