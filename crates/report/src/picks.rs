//! Cards of picks and their reasons, with thumbnails.

use std::collections::HashMap;
use std::fmt::Write;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{Task, Why};
use nextpair_scenario::Arm;

use super::card::Card;
use super::page::{escaped, frame};

/// Number of picks shown.
const PICKS: usize = 6;
/// Number of reasons shown per pick.
const REASONS: usize = 3;

/// The known half of a pick, which the card shows.
pub(super) enum Half<'a> {
    /// The image of the item.
    Image,
    /// A caption. The function maps an item to its caption, both by their number in the dataset.
    Text(&'a dyn Fn(usize) -> Option<usize>),
}

/// Returns the first picks of a strategy as cards, with a note.
pub(super) fn cards(tasks: &[Task], arm: &Arm, half: &Half<'_>, dataset: &Dataset) -> String {
    let tasks: Vec<&Task> = tasks.iter().filter(|task| !task.why.is_empty()).take(PICKS).collect();
    let wanted = tasks.iter().flat_map(|task| {
        let reasons = task.why.iter().take(REASONS).map(|why| why.id.as_str());
        std::iter::once(task.id.as_str()).chain(reasons)
    });
    let mut shown: HashMap<&str, Option<Card>> = wanted.map(|id| (id, None)).collect();
    let mut texts: HashMap<&str, String> = HashMap::new();
    for (index, item) in dataset.items().iter().enumerate() {
        if let Some((&id, _)) = shown.get_key_value(item.id.as_str()) {
            shown.insert(id, Some(Card::of(dataset, index)));
            if let Half::Text(text_of) = half {
                let first = dataset.items().captions_of(index).start;
                let text = text_of(index).and_then(|text| item.captions.get(text - first));
                texts.insert(id, text.cloned().unwrap_or_default());
            }
        }
    }
    let bars = Bars::of(tasks.iter().flat_map(|task| task.why.iter().take(REASONS)));
    let card = |task: &&Task| card(task, texts.get(task.id.as_str()), &shown, &bars);
    let rival = match arm.top_k {
        1 => "hardest rival".to_owned(),
        k => format!("rival that is number {k} from the top"),
    };
    format!(
        "<div class=\"why\">{}</div>\
         <p class=\"note\">Bars are similarities and begin at {}; the mark is the threshold, the \
         similarity of the {rival} among the pairs that were looked at.</p>",
        tasks.iter().map(card).collect::<String>(),
        bars.said(bars.low)
    )
}

/// Explains the picks of a strategy: the statement holds for every reason on a card.
pub(super) fn reason(arm: &Arm, pool: Side) -> String {
    let (half, other) = pool.own_and_other("image", "caption");
    let each = match arm.mini {
        None => format!("Each {half}"),
        Some(mini) => format!("In a draw of the pairs (mini batch {mini}), each {half}"),
    };
    let than = match arm.top_k {
        1 => format!("any other paired {half} is"),
        k => format!("all but at most {} of the other paired {half}s are", k - 1),
    };
    let article = if other == "image" { "an" } else { "a" };
    format!(
        "{each} is more similar to these {other}s than {than}. Once it has {article} {other} of \
         its own, the model has to learn the difference."
    )
}

/// Returns one card. `text` is the caption of a pick from a pool of texts.
fn card(
    task: &Task,
    text: Option<&String>,
    shown: &HashMap<&str, Option<Card>>,
    bars: &Bars,
) -> String {
    let of = |id: &str| shown.get(id).and_then(Option::as_ref);
    let picture = |id: &str| match of(id) {
        Some(card) => frame(&card.thumbnail),
        None => "<div class=\"frame\">not in the dataset</div>".to_owned(),
    };
    let own = match (text, of(&task.id)) {
        (Some(text), _) => format!("<blockquote>{}</blockquote>", escaped(text)),
        (None, Some(Card { item, thumbnail: Err(_) })) if !item.captions.is_empty() => {
            // The caption is known to the dataset, but was not to the strategy.
            let caption = escaped(&item.captions[0]);
            format!("{}<blockquote>{caption}</blockquote>", picture(&task.id))
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
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<li>{}<div><p class=\"said\">{}</p>{}</div></li>",
            picture(&why.id),
            escaped(&why.caption),
            bars.bar(why)
        );
    }
    text + "</ol></article>\n"
}

/// Bars of similarities, scaled so that they differ visibly from their thresholds.
struct Bars {
    low: f64,
    high: f64,
    digits: usize,
}

impl Bars {
    fn of<'a>(reasons: impl Iterator<Item = &'a Why>) -> Self {
        let (mut low, mut high, mut surplus) = (f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY);
        for why in reasons {
            low = low.min(why.threshold);
            high = high.max(why.similarity);
            surplus = surplus.min(why.surplus.abs());
        }
        if low > high {
            (low, high, surplus) = (0.0, 1.0, 1.0);
        }
        // Start at zero, unless all bars would look alike.
        let range = high - low;
        let low = if low > 0.0 && low < 2.0 * range { 0.0 } else { low - range };
        let digits = (1.0 - surplus.max(1e-6).log10()).ceil().clamp(3.0, 6.0) as usize;
        Bars { low, high, digits }
    }

    fn said(&self, value: f64) -> String {
        format!("{value:.*}", self.digits)
    }

    /// Returns a bar with a mark at the threshold.
    fn bar(&self, why: &Why) -> String {
        let range = (self.high - self.low).max(1e-12);
        let percent = |value: f64| (100.0 * (value - self.low) / range).clamp(0.0, 100.0);
        format!(
            "<div class=\"bar\"><i style=\"width:{:.1}%\"></i><b style=\"left:{:.1}%\"></b></div>\
             <p class=\"note\">{} against {}: surplus {}</p>",
            percent(why.similarity),
            percent(why.threshold),
            self.said(why.similarity),
            self.said(why.threshold),
            self.said(why.surplus)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "<script>alert('x')</script> & \"more\"";

    fn dataset(folder: &std::path::Path) -> Dataset {
        let manifest = "nextpair_dataset = 1\nname = \"d\"\nsource = \"s\"\nsynthetic = false\n\
                        items = 2\ncaptions = 4\n";
        let line = |id: &str| {
            let caption = serde_json::to_string(HOSTILE).unwrap();
            let captions = format!("[{caption},\"the second\"]");
            format!("{{\"id\":\"{id}\",\"image\":\"{id}.jpg\",\"captions\":{captions}}}\n")
        };
        std::fs::write(folder.join("dataset.toml"), manifest).unwrap();
        std::fs::write(folder.join("items.jsonl"), line("a<b>") + &line("c")).unwrap();
        Dataset::open(folder).unwrap()
    }

    fn task(surplus: f64) -> Task {
        let why = |id: &str| Why {
            id: id.to_owned(),
            caption: HOSTILE.to_owned(),
            similarity: 0.5 + surplus,
            threshold: 0.5,
            surplus,
        };
        let why = vec![why("c"), why("<i>gone</i>")];
        Task {
            rank: 1,
            id: "a<b>".to_owned(),
            score: 2.0,
            hits: Some(1),
            why,
            facts: Default::default(),
        }
    }

    #[test]
    fn hostile_names_and_captions_are_text() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = dataset(folder.path());
        let arm: Arm = "hard-negative".parse().unwrap();
        for half in [Half::Image, Half::Text(&|item| Some(2 * item))] {
            let html = cards(&[task(0.2)], &arm, &half, &dataset);
            assert!(!html.contains("<script") && !html.contains("<b>") && !html.contains("<i>"));
            assert!(html.contains("a&lt;b&gt;") && html.contains("&lt;script&gt;"));
            assert!(html.contains("not in the dataset") && html.contains("confused with 1 pair<"));
        }
        assert!(cards(&[], &arm, &Half::Image, &dataset).contains("class=\"why\""));
    }

    #[test]
    fn a_caption_of_the_pool_is_the_one_that_was_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = dataset(folder.path());
        let arm: Arm = "hard-negative+top-5".parse().unwrap();
        let html = cards(&[task(0.2)], &arm, &Half::Text(&|item| Some(2 * item + 1)), &dataset);
        assert!(html.contains("<blockquote>the second</blockquote>"), "{html}");
        assert!(html.contains("the rival that is number 5 from the top"), "{html}");
    }

    #[test]
    fn what_is_said_of_picks_is_what_the_strategy_does() {
        let said = |name: &str, pool| reason(&name.parse().unwrap(), pool);
        let plain = said("hard-negative", Side::Image);
        assert!(plain.contains("to these captions than any other paired image is."), "{plain}");
        let loose = said("hard-negative+mini-2560+top-5", Side::Text);
        let says = "In a draw of the pairs (mini batch 2560), each caption is more similar to these \
                    images than all but at most 4 of the other paired captions are. Once it has an \
                    image of its own";
        assert!(loose.starts_with(says), "{loose}");
    }

    #[test]
    fn bars_tell_similarities_from_thresholds() {
        let (wide, narrow) = (task(0.4), task(0.0002));
        let wide = Bars::of(wide.why.iter());
        assert_eq!((wide.low, wide.digits), (0.0, 3));
        let narrow = Bars::of(narrow.why.iter());
        assert!(narrow.low > 0.499 && narrow.low < 0.5);
        assert!(narrow.bar(&task(0.0002).why[0]).contains("left:50.0%"));
        assert_eq!(narrow.digits, 5);
    }
}
