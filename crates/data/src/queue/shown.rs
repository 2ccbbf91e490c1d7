//! What people are shown of a task.

use std::path::Path;

use super::Task;
use crate::dataset::{Dataset, Item};
use crate::{Error, Side};

/// A task with its item.
pub(super) struct Shown<'a> {
    pub(super) task: &'a Task,
    pub(super) item: Item,
}

impl<'a> Shown<'a> {
    /// All tasks of a queue; `path` is what is being written.
    pub(super) fn all(
        path: &Path,
        tasks: &'a [Task],
        dataset: &Dataset,
    ) -> Result<Vec<Self>, Error> {
        let items = dataset.items();
        let numbers = items.find(tasks.iter().map(|task| task.id.as_str()));
        let shown = |(row, task): (usize, &'a Task)| {
            let Some(&index) = numbers.get(task.id.as_str()) else {
                let what = format!("{} has no item {:?}", dataset.folder().display(), task.id);
                return Err(Error::row(path, row, what));
            };
            Ok(Shown { task, item: items.get(index) })
        };
        tasks.iter().enumerate().map(shown).collect()
    }

    /// The name of the image, or the id where the image is known by its features only.
    pub(super) fn image(&self) -> &str {
        self.item.image.as_deref().unwrap_or(&self.item.id)
    }

    /// The captions of the pairs that the item would be confused with.
    pub(super) fn confused_with(&self, between: &str) -> String {
        let captions: Vec<&str> = self.task.why.iter().map(|why| why.caption.as_str()).collect();
        captions.join(between)
    }
}

/// What the other half of an item of this pool is called in sheets and forms.
pub(super) fn wanted(pool: Side) -> &'static str {
    match pool {
        Side::Image => "caption",
        Side::Text => "image",
    }
}
