//! Small datasets for tests.

use std::path::Path;

use super::{Dataset, ITEMS, Item, MANIFEST, Manifest};

/// An item of the training split.
pub(crate) fn item(id: &str, image: Option<&str>, captions: &[&str]) -> Item {
    Item {
        id: id.into(),
        split: Some("train".into()),
        image: image.map(Into::into),
        captions: captions.iter().map(|&caption| caption.into()).collect(),
    }
}

/// Writes the dataset `folder` with these items; `change` edits its manifest.
pub(crate) fn dataset(
    folder: &Path,
    items: &[Item],
    change: impl FnOnce(&mut Manifest),
) -> Dataset {
    std::fs::create_dir_all(folder).unwrap();
    let lines: Vec<String> = items.iter().map(|i| serde_json::to_string(i).unwrap()).collect();
    std::fs::write(folder.join(ITEMS), lines.join("\n") + "\n").unwrap();
    let mut manifest = Manifest::new("sample", "made for a test");
    manifest.items = items.len();
    manifest.captions = items.iter().map(|item| item.captions.len()).sum();
    change(&mut manifest);
    manifest.write(&folder.join(MANIFEST)).unwrap();
    Dataset::open(folder).unwrap()
}
