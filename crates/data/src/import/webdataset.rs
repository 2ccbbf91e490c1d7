//! WebDataset shards: tar files in which members of one name and different extensions belong
//! together, such as `000001.jpg` and `000001.txt` or `000001.json`.

mod members;

use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::captions::captions;
use super::{Entry, Importer, Sink, has_image_extension, split_in_name};
use crate::dataset::{Item, check_inside};
use crate::{Error, ordinary, picture};
use members::{LimitedReader, each_member, text, unpack};

/// Largest member in bytes; anything larger is neither an image nor a caption.
const LARGEST_MEMBER: u64 = 256 << 20;

/// Most folders in the name of a member: the import creates each of them.
const DEEPEST_NAME: usize = 32;
/// Longest name of a member in bytes; it becomes an id and a path.
const LONGEST_NAME: usize = 1024;
/// A compressed shard may expand to this many times its size, plus `LARGEST_ANYWAY`. Captions and
/// the headers before them shrink to a twentieth.
const LARGEST_RATIO: u64 = 200;
const LARGEST_ANYWAY: u64 = 64 << 20;

/// Tar shards, whose images are unpacked into the dataset.
#[derive(Clone, Debug)]
pub struct WebDataset {
    /// One shard, or a folder of `.tar`, `.tar.gz` and `.tgz` files.
    pub source: PathBuf,
    /// The split of shards whose names do not begin with one (`train-000.tar`, `val-000.tar`).
    pub split: String,
}

/// The members of one sample so far.
#[derive(Default)]
struct Sample {
    key: String,
    image: Option<String>,
    text: Option<String>,
    json: Option<Map<String, Value>>,
}

impl Importer for WebDataset {
    fn source(&self) -> String {
        format!("webdataset {}", self.source.display())
    }

    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let images = sink.own_images()?;
        let shards = self.shards()?;
        sink.start("unpacking", shards.len());
        for (name, path) in shards {
            Shard { name: &name, path: &path, split: &self.split, images: &images }.read(sink)?;
            sink.advance(1);
        }
        Ok(())
    }
}

impl WebDataset {
    /// The shards with their names, in the order of the names.
    fn shards(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let name = |path: &Path| {
            let name = path.file_name()?.to_str().filter(|name| !name.starts_with('.'))?;
            let stem = [".tar", ".tar.gz", ".tgz"].iter().find_map(|end| name.strip_suffix(end))?;
            Some(stem.to_owned())
        };
        let source = &self.source;
        let mut shards = Vec::new();
        if std::fs::metadata(source).map_err(|e| Error::io(source, e))?.is_dir() {
            for entry in std::fs::read_dir(source).map_err(|e| Error::io(source, e))? {
                let path = entry.map_err(|e| Error::io(source, e))?.path();
                shards.extend(name(&path).map(|name| (name, path)));
            }
        } else {
            shards.extend(name(source).map(|name| (name, source.clone())));
        }
        shards.sort();
        if shards.is_empty() {
            return Err(Error::format(source, "no .tar, .tar.gz or .tgz files"));
        }
        match shards.windows(2).find(|two| two[0].0 == two[1].0) {
            Some(two) => {
                let what = format!("has the same name as {}", two[0].1.display());
                Err(Error::format(&two[1].1, what))
            }
            None => Ok(shards),
        }
    }
}

/// One tar file that is being imported.
struct Shard<'a> {
    name: &'a str,
    path: &'a Path,
    split: &'a str,
    images: &'a Path,
}

/// The reason for taking no more members.
enum Stop {
    /// The shard is damaged; others may be whole.
    Shard(io::Error),
    /// The import cannot continue.
    Import(Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Shard(error)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Import(error)
    }
}

impl Shard<'_> {
    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let file = ordinary::open(self.path)?;
        let size = file.metadata().map_err(|e| Error::io(self.path, e))?.len();
        let file = BufReader::new(file);
        let plain = self.path.extension().is_some_and(|extension| extension == "tar");
        let bytes: Box<dyn Read> = if plain {
            Box::new(file)
        } else {
            Box::new(LimitedReader {
                bytes: MultiGzDecoder::new(file),
                left: LARGEST_ANYWAY.saturating_add(size.saturating_mul(LARGEST_RATIO)),
            })
        };
        let mut sample = Sample::default();
        let taken =
            each_member(bytes, |name, member| self.member(&name, member, &mut sample, sink));
        match taken {
            Ok(()) => {}
            Err(Stop::Import(error)) => return Err(error),
            Err(Stop::Shard(error)) => {
                // Nothing can be found after a damaged place.
                sink.bad("damaged shard", &self.path.display().to_string(), &error.to_string())?;
            }
        }
        self.end(sample, sink)
    }

    fn member(
        &self,
        name: &str,
        member: &mut tar::Entry<'_, impl Read>,
        sample: &mut Sample,
        sink: &mut Sink<'_>,
    ) -> Result<(), Stop> {
        let place = format!("{}: {name}", self.path.display());
        let name = name.trim_start_matches("./");
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        let is_hidden = name[base..].starts_with('.') && !name[base..].starts_with("..");
        if member.header().entry_type().is_dir() || is_hidden {
            return Ok(());
        }
        // The shard's name is part of the path, and may be as odd as that of a member.
        let file = format!("{}/{name}", self.name);
        let refused = match check_inside(name).and_then(|()| check_inside(&file)) {
            Err(what) => Some(what),
            Ok(()) if name.len() > LONGEST_NAME => Some(format!("a name of {} bytes", name.len())),
            Ok(()) if name.split('/').count() > DEEPEST_NAME => {
                Some(format!("in more than {DEEPEST_NAME} folders"))
            }
            Ok(()) if !member.header().entry_type().is_file() => {
                Some("is not an ordinary file".to_owned())
            }
            Ok(()) if member.size() > LARGEST_MEMBER => Some(format!("{} bytes", member.size())),
            Ok(()) => None,
        };
        if let Some(what) = refused {
            return Ok(sink.bad("impossible member", &place, &what)?);
        }
        let Some(dot) = name[base..].find('.').map(|dot| base + dot) else {
            return Ok(sink.note("member without an extension", &place)?);
        };
        let (key, extension) = (&name[..dot], name[dot + 1..].to_ascii_lowercase());
        if sample.key != key {
            let fresh = Sample { key: key.to_owned(), ..Sample::default() };
            self.end(std::mem::replace(sample, fresh), sink)?;
        }
        match extension.as_str() {
            "txt" | "caption" => match text(member)? {
                Ok(text) => sample.text = Some(text),
                Err(what) => sink.bad("impossible member", &place, &what)?,
            },
            "json" => {
                let parsed = text(member)?
                    .and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
                match parsed {
                    Ok(Value::Object(json)) => sample.json = Some(json),
                    Ok(_) => sink.note("JSON that is not an object, not read", &place)?,
                    Err(what) => sink.bad("impossible member", &place, &what)?,
                }
            }
            // Not `depth.png` and the like, which belong to an image and are none.
            image if !image.contains('.') && has_image_extension(&format!(".{image}")) => {
                if sample.image.is_some() {
                    return Ok(sink.note("second image of a sample, left out", &place)?);
                }
                match unpack(member, &self.images.join(&file))? {
                    Ok(()) => sample.image = Some(file),
                    Err(what) => sink.bad("impossible member", &place, &what)?,
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a sample. Removes its image again if it is not kept.
    fn end(&self, sample: Sample, sink: &mut Sink<'_>) -> Result<(), Error> {
        let unpacked = sample.image.as_ref().map(|image| self.images.join(image));
        let kept = self.keep(sample, unpacked.as_deref(), sink)?;
        match unpacked {
            Some(path) if !kept => fs::remove_file(&path).map_err(|e| Error::io(&path, e)),
            _ => Ok(()),
        }
    }

    fn keep(
        &self,
        sample: Sample,
        unpacked: Option<&Path>,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Error> {
        let Sample { key, image, text, json } = sample;
        let place = format!("{}: {key}", self.path.display());
        let refuse = |sink: &mut Sink<'_>, what, detail: &str| {
            sink.bad(what, &place, detail).map(|()| false)
        };
        let captions = match (text, json) {
            (Some(text), _) => Ok(vec![text]),
            (None, Some(json)) => captions(&json, None),
            (None, None) => Ok(Vec::new()),
        };
        let captions = match captions {
            Ok(captions) => captions,
            Err(what) => return refuse(sink, "impossible member", &what),
        };
        if image.is_none() && captions.is_empty() {
            if !key.is_empty() {
                sink.note("sample without image and caption, left out", &place)?;
            }
            return Ok(false);
        }
        // Check the image here, not only in the sink's batches, so that a shard full of garbage
        // does not fill the disk.
        if let Some((path, Err(error))) = unpacked.map(|path| (path, picture::probe(path))) {
            // Hide the temporary place that it was unpacked to.
            let what = error.to_string().replace(&format!("{}: ", path.display()), "");
            return refuse(sink, "bad or missing image", &what);
        }
        let split = split_in_name(self.name).unwrap_or(self.split).to_owned();
        let id = format!("{}/{key}", self.name);
        let item = Item { id, split: Some(split), image, captions };
        sink.entry(Entry { item, place, ..Entry::default() })
    }
}
