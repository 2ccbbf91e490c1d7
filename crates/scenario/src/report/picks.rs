//! What was picked, and why: cards with thumbnails.

use std::collections::HashMap;
use std::fmt::Write;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{Task, Why};

use super::card::Card;
use super::page::{escaped, frame};

/// Picks that are shown.
const PICKS: usize = 6;
/// Reasons that are shown of each.
const REASONS: usize = 3;

/// The first picks as cards.
pub(super) fn cards(tasks: &[Task], side: Side, dataset: &Dataset) -> String {
    let tasks: Vec<&Task> = tasks.iter().filter(|task| !task.why.is_empty()).take(PICKS).collect();
    let wanted = tasks.iter().flat_map(|task| {
        let reasons = task.why.iter().take(REASONS).map(|why| why.id.as_str());
        std::iter::once(task.id.as_str()).chain(reasons)
    });
    let mut shown: HashMap<&str, Option<Card>> = wanted.map(|id| (id, None)).collect();
    for (index, item) in dataset.items().iter().enumerate() {
        if let Some(card) = shown.get_mut(item.id.as_str()) {
            *card = Some(Card::of(dataset, index));
        }
    }
    // The longest bar is a similarity that the model can have.
    let largest = tasks.iter().flat_map(|task| &task.why).map(|why| why.similarity.abs());
    let scale = largest.fold(0.0, f64::max).max(1e-9);
    let card = |task: &&Task| card(task, side, &shown, scale);
    format!("<div class=\"why\">{}</div>", tasks.iter().map(card).collect::<String>())
}

fn card(task: &Task, side: Side, shown: &HashMap<&str, Option<Card>>, scale: f64) -> String {
    let of = |id: &str| shown.get(id).and_then(Option::as_ref);
    let picture = |id: &str| match of(id) {
        Some(card) => frame(&card.thumbnail),
        None => "<div class=\"frame\">not in the dataset</div>".to_owned(),
    };
    let own = match (side, of(&task.id)) {
        (Side::Text, Some(card)) => {
            let caption = card.item.captions.first().map_or("", String::as_str);
            format!("<blockquote>{}</blockquote>", escaped(caption))
        }
        _ => picture(&task.id),
    };
    let hits = match task.hits {
        Some(1) => "confused with 1 pair".to_owned(),
        Some(hits) => format!("confused with {hits} pairs"),
        None => String::new(),
    };
    let mut text = format!(
        "<article>{own}<div class=\"pick\"><h3><span class=\"rank\">{}</span> {}</h3>\
         <p class=\"note\">score {:.3}, {hits}</p></div><ol>",
        task.rank,
        escaped(&task.id),
        task.score
    );
    for why in task.why.iter().take(REASONS) {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "<li>{}<div><p class=\"said\">{}</p>{}</div></li>",
            picture(&why.id),
            escaped(&why.caption),
            bar(why, scale)
        );
    }
    text + "</ol></article>\n"
}

/// The similarity as a bar, with a mark where the threshold is.
fn bar(why: &Why, scale: f64) -> String {
    let percent = |value: f64| (100.0 * value / scale).clamp(0.0, 100.0);
    format!(
        "<div class=\"bar\"><i style=\"width:{:.1}%\"></i><b style=\"left:{:.1}%\"></b></div>\
         <p class=\"note\">{:.3} against {:.3}: surplus {:.3}</p>",
        percent(why.similarity),
        percent(why.threshold),
        why.similarity,
        why.threshold,
        why.surplus
    )
}
