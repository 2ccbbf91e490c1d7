//! Karpathy's `dataset_flickr8k.json`, `dataset_flickr30k.json` and `dataset_coco.json`.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Entry, Importer, Sink, json};
use crate::Error;
use crate::dataset::{DEV, Item};

/// A `dataset_*.json` file.
#[derive(Clone, Debug)]
pub struct Karpathy {
    /// The file.
    pub json: PathBuf,
    /// The folder of the images, if they are available.
    pub image_dir: Option<PathBuf>,
    /// Whether to import COCO's `restval` images, as a split of that name. The paper trains without
    /// them.
    pub restval: bool,
    /// Most captions per image; the first ones are kept. COCO has up to seven where five are
    /// customary.
    pub max_captions: usize,
}

#[derive(Deserialize)]
struct File {
    images: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Image {
    filename: String,
    filepath: Option<String>,
    split: String,
    sentences: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    raw: String,
}

impl Importer for Karpathy {
    fn source(&self) -> String {
        format!("karpathy {}", self.json.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let Some(folder) = &self.image_dir {
            sink.images_in(folder)?;
        }
        let file: File = json::read(&self.json)?;
        sink.start("reading", file.images.len());
        for (number, raw) in file.images.iter().enumerate() {
            sink.advance(1);
            let place = format!("{}: images[{number}]", self.json.display());
            let image: Image = match json::entry(raw) {
                Ok(image) => image,
                Err(what) => {
                    sink.bad("unreadable entry", &place, &what)?;
                    continue;
                }
            };
            if image.split == "restval" && !self.restval {
                sink.note("restval image, left out as in the paper", &image.filename)?;
                continue;
            }
            let captions = image.sentences.into_iter().map(|sentence| sentence.raw).collect();
            let captions = sink.at_most(self.max_captions, captions, &image.filename)?;
            let split = if image.split == "val" { DEV.to_owned() } else { image.split };
            let path = match &image.filepath {
                Some(folder) => format!("{folder}/{}", image.filename),
                None => image.filename.clone(),
            };
            let item = Item { id: image.filename, split: Some(split), image: Some(path), captions };
            sink.entry(Entry { item, place, ..Entry::default() })?;
        }
        Ok(())
    }
}
