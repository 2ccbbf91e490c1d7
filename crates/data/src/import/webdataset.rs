//! WebDataset shards: tar files in which members of one name and different extensions belong
//! together, `000001.jpg` with `000001.txt` or `000001.json`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::folder::captions_in;
use super::{Entry, Importer, Sink, has_image_extension, split_in_name};
use crate::Error;
use crate::dataset::{Item, check_inside};

/// A member that is larger is no image and no caption.
const LARGEST_MEMBER: u64 = 256 << 20;
/// Captions and metadata are small.
const LARGEST_TEXT: u64 = 16 << 20;

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
    /// The shards by name, in the order of their names.
    fn shards(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let name = |path: &Path| {
            let name = path.file_name()?.to_str()?;
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

/// One tar file on its way into the dataset.
struct Shard<'a> {
    name: &'a str,
    path: &'a Path,
    split: &'a str,
    images: &'a Path,
}

impl Shard<'_> {
    fn read(&self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let file = BufReader::new(File::open(self.path).map_err(|e| Error::io(self.path, e))?);
        let plain = self.path.extension().is_some_and(|extension| extension == "tar");
        let bytes: Box<dyn Read> = match plain {
            true => Box::new(file),
            false => Box::new(MultiGzDecoder::new(file)),
        };
        let mut archive = tar::Archive::new(bytes);
        let mut sample = Sample::default();
        let members = archive.entries().map_err(|e| Error::io(self.path, e))?;
        for member in members {
            // Behind a damaged header nothing can be found, but other shards may be whole.
            let taken = member.and_then(|mut member| self.member(&mut member, &mut sample, sink));
            match taken {
                Ok(result) => result?,
                Err(e) => {
                    sink.bad("damaged shard", &self.path.display().to_string(), &e.to_string())?;
                    break;
                }
            }
        }
        self.end(sample, sink)
    }

    /// Takes one member. The outer error is damage to the shard, the inner one ends the import.
    fn member(
        &self,
        member: &mut tar::Entry<'_, impl Read>,
        sample: &mut Sample,
        sink: &mut Sink<'_>,
    ) -> io::Result<Result<(), Error>> {
        let kind = member.header().entry_type();
        if kind.is_dir() {
            return Ok(Ok(()));
        }
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let place = format!("{}: {name}", self.path.display());
        let name = name.trim_start_matches("./");
        let refused = match check_inside(name) {
            Err(what) => Some(what),
            Ok(()) if !kind.is_file() => Some("is not an ordinary file".to_owned()),
            Ok(()) if member.size() > LARGEST_MEMBER => Some(format!("{} bytes", member.size())),
            Ok(()) => None,
        };
        if let Some(what) = refused {
            return Ok(sink.bad("impossible member", &place, &what));
        }
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        let Some(dot) = name[base..].find('.').map(|dot| base + dot) else {
            return Ok(sink.note("member without an extension", &place));
        };
        let (key, extension) = (&name[..dot], &name[dot + 1..]);
        if sample.key != key {
            let fresh = Sample { key: key.to_owned(), ..Sample::default() };
            if let Err(error) = self.end(std::mem::replace(sample, fresh), sink) {
                return Ok(Err(error));
            }
        }
        match extension.to_ascii_lowercase().as_str() {
            "txt" | "caption" => match text(member)? {
                Ok(text) => sample.text = Some(text),
                Err(what) => return Ok(sink.bad("impossible member", &place, &what)),
            },
            "json" => {
                let parsed = text(member)?
                    .and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
                match parsed {
                    Ok(json) => sample.json = Some(json),
                    Err(what) => return Ok(sink.bad("impossible member", &place, &what)),
                }
            }
            image if has_image_extension(&format!(".{image}")) => {
                if sample.image.is_some() {
                    return Ok(sink.note("second image of a sample, left out", &place));
                }
                let file = format!("{}/{name}", self.name);
                if let Err(error) = unpack(member, &self.images.join(&file))? {
                    return Ok(Err(error));
                }
                sample.image = Some(file);
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    /// The sample has no more members.
    fn end(&self, sample: Sample, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Sample { key, image, text, json } = sample;
        let place = format!("{}: {key}", self.path.display());
        let keys = ["caption", "captions", "text"];
        let in_json = json.as_ref().and_then(|json| keys.iter().find_map(|&key| json.get(key)));
        let captions = match (text, in_json) {
            (Some(text), _) => vec![text],
            (None, None | Some(Value::Null)) => Vec::new(),
            (None, Some(value)) => match captions_in(value) {
                Ok(captions) => captions,
                Err(what) => return sink.bad("impossible member", &place, &what),
            },
        };
        if image.is_none() && captions.is_empty() {
            return match key.is_empty() {
                true => Ok(()),
                false => sink.note("sample without image and caption, left out", &place),
            };
        }
        let split = split_in_name(self.name).unwrap_or(self.split).to_owned();
        let id = format!("{}/{key}", self.name);
        let item = Item { id, split: Some(split), image, captions };
        sink.entry(Entry { item, place, ..Entry::default() })
    }
}

fn text(member: &mut impl Read) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    member.take(LARGEST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_TEXT {
        return Ok(Err("more than 16 MB of text".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned());
    Ok(text.map(|text| text.trim_start_matches('\u{feff}').to_owned()))
}

/// Writes a member to a file; the outer error is the shard's, the inner one the disk's.
fn unpack(member: &mut tar::Entry<'_, impl Read>, path: &Path) -> io::Result<Result<(), Error>> {
    let size = member.size();
    let create = || {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        // Not over another member of the same name: nothing is written twice.
        Ok(BufWriter::new(File::create_new(path)?))
    };
    let mut file = match create() {
        Ok(file) => file,
        Err(e) => return Ok(Err(Error::io(path, e))),
    };
    let (mut buffer, mut done) = (vec![0; 1 << 16], 0);
    loop {
        let read = member.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        done += read as u64;
        if let Err(e) = file.write_all(&buffer[..read]) {
            return Ok(Err(Error::io(path, e)));
        }
    }
    if done < size {
        let what = format!("cut off: a member has {done} of {size} bytes");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
    }
    Ok(file.flush().map_err(|e| Error::io(path, e)))
}
