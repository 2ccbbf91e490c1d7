//! SCAN's `*_precomp` folders, and the like of VSE++ and IMRAM: per split a file of features, a
//! file of captions and, maybe, a file of ids.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Entry, Importer, Sink, has_image_extension, json};
use crate::dataset::Item;
use crate::lines::{Line, Lines};
use crate::{Error, Side, npy};

/// A `*_precomp` folder.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The folder.
    pub folder: PathBuf,
    /// The splits to take; empty means those of `train`, `dev` and `test` that are there.
    pub splits: Vec<String>,
    /// The folder of the images, if they are at hand and the ids are their names.
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
        let mut first_row = 0;
        for part in &parts {
            first_row += self.read_part(part, first_row, restval.as_ref(), sink)?;
        }
        let files: Vec<PathBuf> = parts.into_iter().map(|part| part.features).collect();
        sink.features("precomp", Side::Image, &files, first_row)
    }
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
        if self.splits.is_empty() && file("testall_caps.txt".to_owned()).is_some() {
            sink.note("split not imported (name it to import it)", "testall")?;
        }
        Ok(parts)
    }

    /// Reads one split; how many rows its features have.
    fn read_part(
        &self,
        part: &Part,
        first_row: usize,
        restval: Option<&HashMap<String, String>>,
        sink: &mut Sink<'_>,
    ) -> Result<usize, Error> {
        let rows = npy::open(&part.features)?.rows();
        let captions = read_captions(&part.captions)?;
        let per_image = captions_per_image(rows, captions.len())
            .map_err(|what| Error::format(&part.captions, what))?;
        let ids = part.ids.as_deref().map(|path| read_ids(path, rows)).transpose()?;
        sink.start("reading", rows);
        let mut captions = captions.into_iter().enumerate();
        for row in 0..rows {
            sink.advance(1);
            let mut taken = Vec::with_capacity(per_image);
            for (at, caption) in captions.by_ref().take(per_image) {
                match caption {
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
                continue;
            }
            let item = Item {
                image: Some(id.clone()).filter(|id| has_image_extension(id)),
                split: Some(part.split.clone()),
                id,
                captions: taken,
            };
            let place = format!("{}: row {row}", part.features.display());
            sink.entry(Entry { item, place, image_row: Some(first_row + row), text_row: None })?;
        }
        Ok(rows)
    }
}

/// The rule of the published loaders, checked: as many captions as rows, or five times as many.
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

fn read_ids(path: &Path, rows: usize) -> Result<Vec<String>, Error> {
    let ids: Vec<String> = Lines::all(path)?.iter().map(|line| line.trim().to_owned()).collect();
    match ids.len() == rows {
        true => Ok(ids),
        false => Err(Error::format(path, format!("{} ids for {rows} rows of features", ids.len()))),
    }
}

/// What an ids file may call the `restval` images: by file name or by COCO's number.
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
