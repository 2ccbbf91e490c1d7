//! COCO's `captions_train2014.json`, and image lists without captions in the same layout
//! (`image_info_test2014.json`, if it is named explicitly).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Entry, Importer, Sink, json, split_in_name};
use crate::Error;
use crate::dataset::Item;

/// A `captions_*.json` file, or a folder of such files from one year.
#[derive(Clone, Debug)]
pub struct Coco {
    /// The file, or the folder `annotations`.
    pub source: PathBuf,
    /// The folder of the images, if they are available; they may lie in its `train2014` and so on.
    pub image_dir: Option<PathBuf>,
    /// Most captions per image; the first ones are kept.
    pub max_captions: usize,
}

#[derive(Deserialize)]
struct File {
    images: Vec<Box<RawValue>>,
    #[serde(default)]
    annotations: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Image {
    id: i64,
    file_name: String,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: i64,
    caption: String,
}

impl Importer for Coco {
    fn source(&self) -> String {
        format!("coco {}", self.source.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let Some(folder) = &self.image_dir {
            sink.images_in(folder)?;
        }
        for file in self.files()? {
            self.read_file(&file, sink)?;
        }
        Ok(())
    }
}

impl Coco {
    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let source = &self.source;
        if !std::fs::metadata(source).map_err(|e| Error::io(source, e))?.is_dir() {
            return Ok(vec![source.clone()]);
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(source).map_err(|e| Error::io(source, e))? {
            let path = entry.map_err(|e| Error::io(source, e))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("captions_") && name.ends_with(".json") {
                files.push(path);
            }
        }
        files.sort();
        let year = |file: &PathBuf| {
            let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            stem[stem.trim_end_matches(|c: char| c.is_ascii_digit()).len()..].to_owned()
        };
        match &files[..] {
            [] => Err(Error::format(source, "a folder without captions_*.json")),
            [first, rest @ ..] => match rest.iter().find(|file| year(file) != year(first)) {
                Some(other) => {
                    // Two years hold the same pictures under other names.
                    let what = format!("two years: {}, {}", first.display(), other.display());
                    Err(Error::format(source, format!("{what}; import one file of them")))
                }
                None => Ok(files),
            },
        }
    }

    fn read_file(&self, path: &Path, sink: &mut Sink<'_>) -> Result<(), Error> {
        let file: File = json::read(path)?;
        sink.start("reading", file.annotations.len() + file.images.len());
        let mut captions: HashMap<i64, Vec<String>> = HashMap::new();
        let mut places: HashMap<i64, String> = HashMap::new();
        for (number, raw) in file.annotations.iter().enumerate() {
            sink.advance(1);
            let place = format!("{}: annotations[{number}]", path.display());
            match json::entry::<Annotation>(raw) {
                Ok(Annotation { image_id, caption }) => {
                    captions.entry(image_id).or_default().push(caption);
                    places.entry(image_id).or_insert(place);
                }
                Err(what) => sink.bad("unreadable entry", &place, &what)?,
            }
        }
        let (split, folder) = self.split_and_folder(path);
        for (number, raw) in file.images.iter().enumerate() {
            sink.advance(1);
            let place = format!("{}: images[{number}]", path.display());
            let image: Image = match json::entry(raw) {
                Ok(image) => image,
                Err(what) => {
                    sink.bad("unreadable entry", &place, &what)?;
                    continue;
                }
            };
            let captions = captions.remove(&image.id).unwrap_or_default();
            let captions = sink.at_most(self.max_captions, captions, &image.file_name)?;
            let path = match &folder {
                Some(folder) => format!("{folder}/{}", image.file_name),
                None => image.file_name.clone(),
            };
            let split = split.map(str::to_owned);
            let item = Item { id: image.file_name, split, image: Some(path), captions };
            sink.entry(Entry { item, place, ..Entry::default() })?;
        }
        let mut orphans: Vec<i64> = captions.into_keys().collect();
        orphans.sort_unstable();
        for id in orphans {
            sink.bad("captions of an image that is not listed", &places[&id], &format!("id {id}"))?;
        }
        Ok(())
    }

    /// The split and image folder of a file: `captions_val2014.json` holds the dev split, whose
    /// images lie in `val2014`.
    fn split_and_folder(&self, path: &Path) -> (Option<&'static str>, Option<String>) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let part = stem.rsplit('_').next().unwrap_or_default();
        let lies_in = |folder: &PathBuf| folder.join(part).is_dir();
        let folder = self.image_dir.as_ref().filter(|folder| lies_in(folder));
        (split_in_name(part), folder.map(|_| part.to_owned()))
    }
}
