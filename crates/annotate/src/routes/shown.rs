//! Tasks and answers with the images and texts of their items.

use nextpair_data::Side;
use nextpair_data::queue::{self, Why};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::event::{Draft, Millis, Seq, Submission};
use crate::state::{
    Alert, AnswerView, CurrentTask, FlagView, NextView, PersonView, QueueTask, State,
};

/// The task of a person, or the reason why there is none.
#[derive(Serialize)]
pub(crate) struct Next {
    task: Option<Task>,
    none: Option<&'static str>,
}

#[derive(Serialize)]
struct Task {
    item: String,
    rank: usize,
    score: f64,
    hits: Option<u32>,
    #[serde(flatten)]
    seen: ItemView,
    why: Vec<Reason>,
    near: Vec<Near>,
    lease_until: Millis,
    lease_ms: Millis,
    draft: Option<Draft>,
    note: Option<String>,
    suggestions: Vec<String>,
    reply: Option<String>,
}

#[derive(Serialize)]
struct Reason {
    item: String,
    caption: String,
    image: Option<String>,
    similarity: f64,
    threshold: f64,
    surplus: f64,
}

/// An item near the task's: the paired one most like it, or one of the pool that learns from it.
#[derive(Serialize)]
struct Near {
    item: String,
    paired: bool,
    image: Option<String>,
    text: Option<String>,
}

/// The image and the texts of an item.
#[derive(Serialize)]
pub(crate) struct ItemView {
    image: Option<String>,
    texts: Vec<String>,
}

/// A value about an item, with the item's image and texts.
#[derive(Serialize)]
pub(crate) struct WithItem<T> {
    #[serde(flatten)]
    what: T,
    #[serde(flatten)]
    seen: ItemView,
}

/// An answer that looks odd.
#[derive(Serialize)]
pub(crate) struct AlertView {
    kind: &'static str,
    answer: Seq,
    item: String,
    said: Submission,
    person: PersonView,
    message: String,
    of: Option<Seq>,
}

impl Catalog {
    fn seen(&self, item: &str) -> ItemView {
        ItemView { image: self.url(item), texts: self.texts(item) }
    }

    pub(crate) fn answer(&self, what: AnswerView) -> WithItem<AnswerView> {
        WithItem { seen: self.seen(&what.item), what }
    }

    pub(crate) fn alert(&self, alert: Alert, state: &State) -> WithItem<AlertView> {
        let Alert { kind, answer, item, said, person, message, of } = alert;
        let person = state.view_of(person);
        WithItem {
            seen: self.seen(&item),
            what: AlertView { kind, answer, item, said, person, message, of },
        }
    }

    pub(crate) fn flag(&self, what: FlagView) -> WithItem<FlagView> {
        WithItem { seen: self.seen(&what.item), what }
    }

    pub(crate) fn queue_task(&self, what: QueueTask) -> WithItem<QueueTask> {
        WithItem { seen: self.seen(&what.item), what }
    }

    pub(crate) fn next(&self, next: NextView) -> Next {
        Next { task: next.task.map(|task| self.task(task)), none: next.none }
    }

    fn task(&self, in_hand: CurrentTask) -> Task {
        let CurrentTask { task, rank, lease_until, lease_ms, draft, note, suggestions, reply } =
            in_hand;
        let reason = |why: &Why| {
            let (id, caption) = why.pair()?;
            let &Why { similarity, threshold, surplus, .. } = why;
            let (image, item, caption) = (self.url(id), id.to_owned(), caption.to_owned());
            Some(Reason { item, caption, image, similarity, threshold, surplus })
        };
        let near = |near: &queue::Near| {
            let (item, paired, text) = match near {
                queue::Near::Paired { id, caption, .. } => (id.as_ref()?, true, caption.clone()),
                queue::Near::Pool { id, .. } => (id, false, self.texts(id).into_iter().next()),
            };
            // What an image is like are images, and what a text is like are texts.
            let (image, text) = match self.pool() {
                Side::Image => (Some(self.url(item)?), None),
                Side::Text => (None, Some(text?)),
            };
            Some(Near { item: item.clone(), paired, image, text })
        };
        Task {
            seen: self.seen(&task.id),
            item: task.id.clone(),
            rank,
            score: task.score,
            hits: task.hits,
            why: task.why.iter().filter_map(reason).collect(),
            near: task.near.iter().filter_map(near).collect(),
            lease_until,
            lease_ms,
            draft,
            note,
            suggestions: suggestions.to_vec(),
            reply,
        }
    }
}
