//! A folder of images with `metadata.jsonl` or `metadata.csv`: Hugging Face's ImageFolder.
//!
//! Top-level folders called `train`, `validation`, `test` and the like are splits. An image without
//! metadata is an unpaired image; a line without `file_name` is an unpaired text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::captions::captions;
use super::{Entry, Importer, Sink, has_image_extension, split_in_name};
use crate::dataset::{Item, check_caption, check_inside, without_place};
use crate::lines::{Line, Lines};
use crate::{Error, ordinary};

/// A folder of images.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The folder.
    pub folder: PathBuf,
    /// The key or column of the captions; by default `caption`, `text` or `captions`.
    pub caption_key: Option<String>,
    /// The split of images outside the folders of splits.
    pub split: String,
}

/// An image, or a line of metadata without one.
#[derive(Default)]
struct FolderEntry {
    place: String,
    is_image: bool,
    captions: Vec<String>,
}

impl Importer for Folder {
    fn source(&self) -> String {
        format!("folder {}", self.folder.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        sink.images_in(&self.folder)?;
        let mut found: BTreeMap<String, FolderEntry> = BTreeMap::new();
        let mut metadata: Vec<String> = Vec::new();
        self.walk("", &mut found, &mut metadata, sink)?;
        let mut has_key = metadata.is_empty();
        for file in &metadata {
            has_key |= self.read_metadata(file, &mut found, sink)?;
        }
        if let (Some(key), false) = (&self.caption_key, has_key) {
            let what = format!("no line of its metadata has the key {key}");
            return Err(Error::format(&self.folder, what));
        }
        sink.start("reading", found.len());
        for (id, FolderEntry { place, is_image, captions }) in found {
            sink.advance(1);
            let top = id.split_once('/').map_or("", |(top, _)| top);
            let split = split_in_name(top).unwrap_or(&self.split).to_owned();
            let image = is_image.then(|| id.clone());
            let item = Item { id, split: Some(split), image, captions };
            sink.entry(Entry { item, place, ..Entry::default() })?;
        }
        Ok(())
    }
}

impl Folder {
    /// Collects images and metadata files by their paths below the folder. It does not follow links
    /// to folders, which avoids cycles, and ignores hidden files.
    fn walk(
        &self,
        below: &str,
        found: &mut BTreeMap<String, FolderEntry>,
        metadata: &mut Vec<String>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Error> {
        let folder = self.folder.join(below);
        let fail = |e| Error::io(&folder, e);
        let mut folders = Vec::new();
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let Ok(name) = entry.file_name().into_string() else {
                let place = entry.path().display().to_string();
                sink.bad("impossible entry", &place, "the name is not UTF-8")?;
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if entry.file_type().map_err(fail)?.is_dir() {
                folders.push(path);
            } else if name == "metadata.jsonl" || name == "metadata.csv" {
                metadata.push(path);
            } else if has_image_extension(&name) {
                let place = entry.path().display().to_string();
                found.insert(path, FolderEntry { place, is_image: true, captions: Vec::new() });
            }
        }
        folders.sort();
        folders.iter().try_for_each(|folder| self.walk(folder, found, metadata, sink))
    }

    /// Reads a metadata file and returns whether any line has the caption key.
    fn read_metadata(
        &self,
        file: &str,
        found: &mut BTreeMap<String, FolderEntry>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Error> {
        let path = self.folder.join(file);
        let rows = if file.ends_with(".csv") { csv_rows(&path)? } else { json_rows(&path)? };
        let folder = file.rsplit_once('/').map(|(folder, _)| folder);
        let (key, mut has_key) = (self.caption_key.as_deref(), false);
        for (line, row) in rows {
            let place = format!("{}:{line}", path.display());
            let read = row.and_then(|row| {
                has_key |= key.is_some_and(|key| row.contains_key(key));
                let (name, captions) = (file_name(&row)?, captions(&row, key)?);
                captions.iter().try_for_each(|caption| check_caption(caption))?;
                if name.is_none() && captions.is_empty() {
                    Err("neither file_name nor caption".to_owned())
                } else {
                    Ok((name, captions))
                }
            });
            let (name, captions) = match read {
                Ok(read) => read,
                Err(what) => {
                    sink.bad("unreadable line", &place, &what)?;
                    continue;
                }
            };
            let Some(name) = name else {
                let text = FolderEntry { place, is_image: false, captions };
                found.insert(format!("{file}:{line}"), text);
                continue;
            };
            let image = folder.map_or(name.clone(), |folder| format!("{folder}/{name}"));
            match found.get_mut(&image) {
                Some(found) => found.captions.extend(captions),
                None if sink.images_are_optional() => {
                    found.insert(image, FolderEntry { place, is_image: true, captions });
                }
                None => {
                    sink.bad("bad or missing image", &place, &format!("there is no {image}"))?
                }
            }
        }
        Ok(has_key)
    }
}

/// Reads `file_name`, or the only key that ends so, such as `image_file_name`.
fn file_name(row: &Map<String, Value>) -> Result<Option<String>, String> {
    let given = |key: &&String| key.ends_with("_file_name") && !row[*key].is_null();
    let mut others = row.keys().filter(given);
    let name = match (row.get("file_name"), others.next(), others.next()) {
        (Some(name), ..) if !name.is_null() => Some(name),
        (_, Some(one), Some(other)) => {
            return Err(format!("{one} and {other}: an item has one image"));
        }
        (_, one, _) => one.and_then(|key| row.get(key)),
    };
    match name {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name.is_empty() => Ok(None),
        Some(Value::String(name)) => {
            let name = name.trim_start_matches("./");
            check_inside(name)?;
            Ok(Some(name.to_owned()))
        }
        Some(other) => Err(format!("file_name must be a text, but is {other}")),
    }
}

/// The rows of a file with their line numbers, as JSON objects.
type Rows = Vec<(usize, Result<Map<String, Value>, String>)>;

fn json_rows(path: &Path) -> Result<Rows, Error> {
    let mut lines = Lines::open(path)?;
    let mut rows = Rows::new();
    while let Some(Line { number, text }) = lines.next()? {
        let row = match text {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => serde_json::from_str(&text).map_err(|e| without_place(&e)),
            Err(what) => Err(what),
        };
        rows.push((number, row));
    }
    Ok(rows)
}

fn csv_rows(path: &Path) -> Result<Rows, Error> {
    let wrong = |e: csv::Error| Error::format(path, e.to_string());
    let mut reader = csv::Reader::from_reader(ordinary::open(path)?);
    let header = reader.headers().map_err(wrong)?.clone();
    let mut rows = Rows::new();
    for record in reader.records() {
        let line = |position: Option<&csv::Position>| position.map_or(0, |p| p.line() as usize);
        rows.push(match record {
            Ok(record) => {
                let fields =
                    header.iter().zip(record.iter()).filter(|(_, field)| !field.is_empty());
                let row = fields.map(|(key, field)| (key.to_owned(), Value::from(field)));
                (line(record.position()), Ok(row.collect()))
            }
            Err(e) => (line(e.position()), Err(e.to_string())),
        });
    }
    Ok(rows)
}
