//! Tasks as annotators see them.

use std::collections::HashMap;
use std::path::Path;

use super::Task;
use crate::dataset::{Dataset, Item, Items};
use crate::{Error, Side};

/// A task with its item.
pub(super) struct TaskWithItem<'a> {
    pub(super) task: &'a Task,
    pub(super) item: Item,
}

/// A queue whose items are known to be in a dataset. Items are read when they are shown.
pub(super) struct Queue<'a> {
    tasks: &'a [Task],
    items: &'a Items,
    /// By id: the indices of the task and of the item.
    places: HashMap<&'a str, (usize, usize)>,
}

impl<'a> Queue<'a> {
    /// Looks up the items of all tasks. Errors name `path`, the file to be written.
    pub(super) fn of(path: &Path, tasks: &'a [Task], dataset: &'a Dataset) -> Result<Self, Error> {
        let items = dataset.items();
        let numbers = items.find(tasks.iter().map(|task| task.id.as_str()));
        let mut places = HashMap::new();
        for (row, task) in tasks.iter().enumerate() {
            let Some(&item) = numbers.get(task.id.as_str()) else {
                let what = format!("{} has no item {:?}", dataset.folder().display(), task.id);
                return Err(Error::row(path, row, what));
            };
            places.insert(task.id.as_str(), (row, item));
        }
        Ok(Queue { tasks, items, places })
    }

    /// Returns whether there is a task about an item.
    pub(super) fn has(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// The task about an item, if there is one.
    pub(super) fn get(&self, id: &str) -> Option<TaskWithItem<'a>> {
        let &(row, item) = self.places.get(id)?;
        Some(TaskWithItem { task: &self.tasks[row], item: self.items.get(item) })
    }

    /// All tasks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = TaskWithItem<'a>> {
        let shown = |task: &'a Task| {
            let &(_, item) = self.places.get(task.id.as_str())?;
            Some(TaskWithItem { task, item: self.items.get(item) })
        };
        self.tasks.iter().filter_map(shown)
    }
}

impl TaskWithItem<'_> {
    /// The name of the image, or the id if only features of the image are known.
    pub(super) fn image(&self) -> &str {
        self.item.image.as_deref().unwrap_or(&self.item.id)
    }

    /// The captions of the pairs that the item would be confused with.
    pub(super) fn confused_with(&self, between: &str) -> String {
        let captions = self.task.why.iter().filter_map(|why| why.caption.as_deref());
        captions.collect::<Vec<_>>().join(between)
    }
}

/// The name of the answer column for this pool, in sheets and forms.
pub(super) fn wanted(pool: Side) -> &'static str {
    match pool {
        Side::Image => "caption",
        Side::Text => "image",
    }
}
