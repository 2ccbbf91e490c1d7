//! Captions that a program wrote, to be suggested to annotators.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use serde_json::{Map, Value};

use super::answers::FilePosition;
use super::{AnswerContent, read_placed_answers};
use crate::dataset::{Dataset, check_caption, without_place};
use crate::lines::{Line, Lines};
use crate::mapping::{self, Bytes};
use crate::rows::{Newlines, reason};
use crate::{Error, Side};

/// Names that captioners give to the item, and to what they said about it.
const NAMES: [&str; 9] =
    ["id", "item", "item_id", "image", "image_path", "file_name", "filename", "file", "path"];
const CAPTIONS: [&str; 6] =
    ["caption", "captions", "generated_text", "generated_caption", "prediction", "text"];

/// The captions of a file by the items of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestions {
    /// Captions by item, in the order of the file, each once.
    pub of: BTreeMap<String, Vec<String>>,
    /// The number of captions of images that the dataset does not have.
    pub unknown: usize,
}

/// Reads captions of a dataset's images, as captioners write them: JSON lines or a table (CSV, with
/// commas, semicolons or tabs) with the item's id or the name of its image, and a caption or, in JSON
/// lines, a list of them; other fields are ignored. `.json` is read as [`read_answers`](super::read_answers)
/// reads it. A file that names no image of the dataset is refused.
pub fn read_suggestions(path: &Path, dataset: &Dataset) -> Result<Suggestions, Error> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    let said = match extension.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" => lines(path)?,
        "csv" | "tsv" => mapping::read(path, |bytes| table(path, bytes))?,
        "json" => {
            let answers = read_placed_answers(path, Side::Image, dataset)?;
            let caption = |answer: super::Answer| match answer.said {
                AnswerContent::Caption(caption) => Some((answer.id, caption)),
                _ => None,
            };
            answers.into_iter().filter_map(|(_, answer)| caption(answer)).collect()
        }
        _ => {
            let what = "captions are read from .jsonl, .csv, .tsv and .json (COCO's layout, or an \
                        export of Label Studio)";
            return Err(Error::format(path, what));
        }
    };
    let known = by_name(&said, dataset);
    let mut suggestions = Suggestions::default();
    for (name, caption) in &said {
        match known.get(name.as_str()) {
            Some(id) => {
                let of = suggestions.of.entry(id.clone()).or_default();
                if !of.contains(caption) {
                    of.push(caption.clone());
                }
            }
            None => suggestions.unknown += 1,
        }
    }
    if suggestions.of.is_empty() {
        let place = dataset.folder().display();
        let what =
            format!("none of its {} captions is of an image of {place}", suggestions.unknown);
        return Err(Error::format(path, what));
    }
    Ok(suggestions)
}

fn lines(path: &Path) -> Result<Vec<(String, String)>, Error> {
    let (mut lines, mut said) = (Lines::open(path)?, Vec::new());
    while let Some(Line { number, text }) = lines.next()? {
        let read = text.and_then(|text| {
            let fields: Map<String, Value> = serde_json::from_str(&text)
                .map_err(|e| format!("not an object: {}", without_place(&e)))?;
            captions(|name| fields.get(name).cloned())
        });
        said.extend(read.map_err(|what| Error::line(path, number, what))?);
    }
    Ok(said)
}

fn table(path: &Path, bytes: &Bytes) -> Result<Vec<(String, String)>, Error> {
    let mut newlines = Newlines::of(bytes.clone());
    let mut place = |place: Option<&csv::Position>| {
        FilePosition::Line(newlines.line_of(place.map_or(0, |place| place.byte() as usize)))
    };
    let by = |separator: u8| {
        ReaderBuilder::new().delimiter(separator).flexible(true).from_reader(bytes.as_slice())
    };
    let header = |separator: u8| {
        let header = by(separator).headers().cloned().unwrap_or_default();
        let named = |name: &str| header.iter().position(|cell| is(cell, name));
        CAPTIONS.iter().find_map(|name| named(name)).is_some().then_some(header.clone())
    };
    let Some((separator, header)) =
        b",;\t".iter().find_map(|&separator| Some((separator, header(separator)?)))
    else {
        let what = format!("no column of captions; it may be called {}", CAPTIONS.join(", "));
        return Err(Error::line(path, 1, what));
    };
    let (mut reader, mut record, mut said) = (by(separator), StringRecord::new(), Vec::new());
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {
                let cell = |name: &str| {
                    let at = header.iter().position(|cell| is(cell, name))?;
                    Some(Value::from(record.get(at)?))
                };
                let empty = record.iter().all(|cell| cell.trim().is_empty());
                let read = if empty { Ok(Vec::new()) } else { captions(cell) };
                said.extend(read.map_err(|what| place(record.position()).error(path, what))?);
            }
            Ok(false) => return Ok(said),
            Err(e) => return Err(place(e.position()).error(path, reason(&e))),
        }
    }
}

fn is(cell: &str, name: &str) -> bool {
    cell.trim().trim_start_matches('\u{feff}').eq_ignore_ascii_case(name)
}

/// The name and the captions of one entry, whose fields are found by name.
fn captions(field: impl Fn(&str) -> Option<Value>) -> Result<Vec<(String, String)>, String> {
    let name = NAMES.iter().find_map(|name| match field(name)? {
        Value::String(name) => Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    let name = name.ok_or_else(|| format!("no name of an item; it may be {}", NAMES.join(", ")))?;
    let said = CAPTIONS.iter().find_map(|name| field(name));
    let said = match said {
        Some(Value::String(caption)) => vec![caption],
        Some(Value::Array(several)) => several
            .into_iter()
            .map(|caption| match caption {
                Value::String(caption) => Ok(caption),
                other => Err(format!("a caption must be a text, but is {other}")),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(format!("a caption must be a text, but is {other}")),
        None => return Err(format!("no caption; it may be {}", CAPTIONS.join(", "))),
    };
    let mut named = Vec::new();
    for caption in said {
        let caption = caption.trim();
        // A captioner that found nothing to say suggests nothing.
        if !caption.is_empty() {
            check_caption(caption)?;
            named.push((name.clone(), caption.to_owned()));
        }
    }
    Ok(named)
}

/// Items by the names of a file: their ids, their images, or the file names of these, where only
/// one item has such an image.
fn by_name<'a>(said: &'a [(String, String)], dataset: &Dataset) -> HashMap<&'a str, String> {
    // A captioner may have been given whole paths.
    let file_of = |name: &'a str| name.rsplit(['/', '\\']).next().unwrap_or(name);
    let names: HashSet<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
    let asked: HashSet<&str> = names.iter().flat_map(|&name| [name, file_of(name)]).collect();
    let mut known: [HashMap<&str, Option<String>>; 3] = Default::default();
    for item in dataset.items().iter() {
        let image = item.image.as_deref();
        let file = image.map(|image| image.rsplit('/').next().unwrap_or(image));
        for (found, name) in known.iter_mut().zip([Some(item.id.as_str()), image, file]) {
            if let Some(name) = name.and_then(|name| asked.get(name)) {
                let several = found.contains_key(name);
                found.insert(name, (!several).then(|| item.id.clone()));
            }
        }
    }
    let [ids, images, files] = &known;
    let find = |name: &'a str| {
        let found = [ids.get(name), images.get(name), files.get(file_of(name))];
        found.into_iter().flatten().flatten().next().cloned()
    };
    names.iter().filter_map(|&name| Some((name, find(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::sample::{dataset, item};

    fn read(name: &str, content: &str) -> Result<Suggestions, String> {
        let folder = tempfile::tempdir().unwrap();
        let items = [
            item("a", Some("x/a.jpg"), &[]),
            item("b", Some("b.jpg"), &[]),
            item("c", Some("x/twin.jpg"), &[]),
            item("d", Some("y/twin.jpg"), &[]),
        ];
        let data = dataset(&folder.path().join("d"), &items, |_| {});
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read_suggestions(&path, &data).map_err(|e| e.to_string())
    }

    fn of(pairs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        pairs.iter().map(|(id, texts)| ((*id).to_owned(), owned(texts))).collect()
    }

    #[test]
    fn captioners_write_many_things() {
        let expected = of(&[("a", &["A dog .", "It runs ."]), ("b", &["A cat ."])]);
        for (name, content) in [
            (
                "s.jsonl",
                "{\"id\":\"a\",\"caption\":\" A dog . \",\"score\":0.5}\n\
                 {\"id\":\"a\",\"caption\":\"It runs .\"}\n{\"image\":\"b.jpg\",\"text\":\"A cat .\"}\n",
            ),
            (
                "s.jsonl",
                "{\"file_name\":\"a.jpg\",\"captions\":[\"A dog .\",\"It runs .\",\"A dog .\"]}\n\
                 {\"path\":\"/data/b.jpg\",\"generated_text\":\"A cat .\"}\n",
            ),
            ("s.csv", "id,Caption,model\na,A dog .,x\na,It runs .,x\n,,\nb,A cat .,x\n"),
            ("s.csv", "filename;caption\nx/a.jpg;A dog .\na;It runs .\nb.jpg;A cat .\n"),
            ("s.tsv", "caption\timage\nA dog .\ta.jpg\nIt runs .\ta\nA cat .\tb\n"),
            (
                "s.json",
                r#"{"images":[{"id":1,"file_name":"x/a.jpg"},{"id":2,"file_name":"b.jpg"}],
                    "annotations":[{"image_id":1,"caption":"A dog ."},{"image_id":1,"caption":"It runs ."},
                                   {"image_id":2,"caption":"A cat ."}]}"#,
            ),
        ] {
            assert_eq!(read(name, content).unwrap().of, expected, "{name}: {content}");
        }
        let some = read("s.csv", "id,caption\na,A dog .\nz,Nobody knows\na,\ntwin.jpg,Whose?\n");
        assert_eq!(some.unwrap(), Suggestions { of: of(&[("a", &["A dog ."])]), unknown: 2 });
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, content, expected) in [
            ("s.jsonl", "{\"id\":\"a\",\"caption\":\"x\"}\n[]\n", ":2: not an object"),
            ("s.jsonl", "{\"caption\":\"x\"}\n", ":1: no name of an item"),
            ("s.jsonl", "{\"id\":\"a\"}\n", ":1: no caption; it may be caption"),
            ("s.jsonl", "{\"id\":\"a\",\"caption\":3}\n", ":1: a caption must be a text"),
            ("s.csv", "id,title\na,b\n", ":1: no column of captions"),
            ("s.csv", "caption\nb\n", ":2: no name of an item"),
            ("s.csv", "id,caption\nz,b\n", "none of its 1 captions is of an image of"),
            ("s.txt", "x", "captions are read from .jsonl"),
        ] {
            let what = read(name, content).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }
}
