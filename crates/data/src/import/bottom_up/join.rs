//! Maps the images of a table to items.

use std::collections::HashMap;

use crate::dataset::{Item, Items};

/// All names by which a table may refer to an item: its id and the name of its image, both with and
/// without extension, and the COCO number at the end of the file name.
pub(super) struct Names(HashMap<String, NameMatch>);

/// The item that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameMatch {
    Item(u32),
    /// The name is ambiguous.
    Several,
    Nobody,
}

impl Names {
    pub(super) fn of(items: &Items) -> Self {
        let mut names = HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let own = NameMatch::Item(index as u32);
            for name in names_of(&item) {
                let found = names.entry(name).or_insert(own);
                if *found != own {
                    *found = NameMatch::Several;
                }
            }
        }
        Names(names)
    }

    pub(super) fn find(&self, id: &str) -> NameMatch {
        let known = |name: &str| self.0.get(name).copied();
        let found = known(id).or_else(|| known(stem(id)));
        found.or_else(|| known(&coco_number(stem(id))?)).unwrap_or(NameMatch::Nobody)
    }
}

fn names_of(item: &Item) -> Vec<String> {
    let image = item.image.as_deref().unwrap_or_default();
    let file = image.rsplit('/').next().unwrap_or_default();
    let numbers = [stem(&item.id), stem(file)].map(coco_number);
    let names = [&item.id, stem(&item.id), file, stem(file)].map(str::to_owned);
    let names = names.into_iter().chain(numbers.into_iter().flatten());
    names.filter(|name| !name.is_empty()).collect()
}

/// A file name without its extension.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// The COCO number: 391895 for `COCO_val2014_000000391895` and for `000000391895`.
fn coco_number(stem: &str) -> Option<String> {
    let digits = stem.rsplit('_').next()?;
    let all = digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.trim_start_matches('0').to_owned()).filter(|number| !number.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(items: &[(&str, Option<&str>)]) -> Names {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("items.jsonl");
        let line = |(id, image): &(&str, Option<&str>)| {
            let image = image.map_or(String::new(), |image| format!(",\"image\":\"{image}\""));
            format!("{{\"id\":\"{id}\"{image},\"captions\":[\"x\"]}}\n")
        };
        std::fs::write(&path, items.iter().map(line).collect::<String>()).unwrap();
        Names::of(&Items::open(&path).unwrap())
    }

    #[test]
    fn items_are_found_by_every_name_they_have() {
        let coco = "COCO_val2014_000000391895.jpg";
        let names = names(&[
            (coco, Some("val2014/COCO_val2014_000000391895.jpg")),
            ("1000092795.jpg", Some("1000092795.jpg")),
            ("7", Some("deep/000000000042.png")),
        ]);
        for (id, expected) in [
            ("391895", NameMatch::Item(0)),
            (coco, NameMatch::Item(0)),
            ("COCO_val2014_000000391895", NameMatch::Item(0)),
            ("000000391895", NameMatch::Item(0)),
            ("1000092795", NameMatch::Item(1)),
            ("1000092795.jpg", NameMatch::Item(1)),
            ("1000092795.png", NameMatch::Item(1)),
            ("7", NameMatch::Item(2)),
            ("42", NameMatch::Item(2)),
            ("000000000042", NameMatch::Item(2)),
            ("39189", NameMatch::Nobody),
            ("", NameMatch::Nobody),
        ] {
            assert_eq!(names.find(id), expected, "{id}");
        }
    }

    #[test]
    fn a_name_of_two_items_is_of_none() {
        let names = names(&[("a.jpg", None), ("a.png", None), ("5", Some("5.jpg"))]);
        assert_eq!(names.find("a"), NameMatch::Several);
        assert_eq!(names.find("a.jpg"), NameMatch::Item(0));
        assert_eq!(names.find("5"), NameMatch::Item(2));
    }
}
