//! A dataset and a queue for the annotation app, of any size and quick to make.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

/// An image of one pixel. Its content does not matter.
const IMAGE: [u8; 67] = [
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0x60, 0, 0, 0, 2, 0, 1, 0x48, 0xaf, 0xa4, 0x71, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];
/// Number of pairs that items are confused with.
const PAIRS: usize = 100;
/// Number of images that all items share.
const IMAGES: usize = 8;

/// A folder with a dataset `dataset` and its queue `queue.jsonl`.
pub(crate) struct World {
    pub(crate) folder: PathBuf,
}

impl World {
    /// Creates a world with this number of tasks, replacing the contents of `folder`.
    pub(crate) fn make(folder: &Path, tasks: usize) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let (mut items, mut queue) = (String::new(), String::new());
        let image = |number: usize| format!("{}.png", number % IMAGES);
        let caption = |pair: usize| format!("A scene that is like no other, number {pair}.");
        for pair in 0..PAIRS {
            let captions = [caption(pair)];
            let item = json!({ "id": format!("pair-{pair}"), "split": "train",
                               "image": image(pair), "captions": captions });
            writeln!(items, "{item}")?;
        }
        for task in 0..tasks {
            let id = format!("item-{task:05}");
            let item = json!({ "id": id, "split": "train", "image": image(task) });
            writeln!(items, "{item}")?;
            let why: Vec<_> = (0..3)
                .map(|rival| {
                    let pair = (task + rival) % PAIRS;
                    json!({ "id": format!("pair-{pair}"), "caption": caption(pair),
                            "similarity": 0.7, "threshold": 0.5, "surplus": 0.2 })
                })
                .collect();
            let score = 3.0 - task as f64 / tasks as f64;
            let line = json!({ "rank": task + 1, "id": id, "score": score, "hits": 3, "why": why });
            writeln!(queue, "{line}")?;
        }
        let manifest = format!(
            "nextpair_dataset = 1\nname = \"crowd\"\nsource = \"cargo xtask\"\nsynthetic = true\n\
             items = {}\ncaptions = {PAIRS}\nimages = \"images\"\n",
            PAIRS + tasks
        );
        let dataset = folder.join("dataset");
        std::fs::create_dir_all(dataset.join("images"))?;
        for number in 0..IMAGES {
            std::fs::write(dataset.join("images").join(image(number)), IMAGE)?;
        }
        std::fs::write(dataset.join("items.jsonl"), items)?;
        std::fs::write(dataset.join("dataset.toml"), manifest)?;
        std::fs::write(folder.join("queue.jsonl"), queue)?;
        Ok(World { folder: folder.canonicalize()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_is_a_dataset_with_a_queue() {
        let folder = std::env::temp_dir().join(format!("nextpair-world-{}", std::process::id()));
        let world = World::make(&folder, 12).unwrap();
        let dataset = nextpair_data::dataset::Dataset::open(&world.folder.join("dataset")).unwrap();
        let queue = nextpair_data::queue::read(&world.folder.join("queue.jsonl")).unwrap();
        assert_eq!((dataset.items().len(), queue.len()), (PAIRS + 12, 12));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
