//! Galleries of picks: images, what they would be confused with, filters, ids to copy.
//!
//! A gallery is data and a script (`assets/gallery.js`). The first picks are written out, so that it can be
//! read without the script.

mod pictures;

use std::collections::HashMap;
use std::fmt::Write;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_engine::{Effect, Measure};
use serde_json::{Value, json};

use crate::bars::Bars;
use crate::chart::style;
use crate::memory::Memory;
use crate::page::escaped;
use crate::words::typographic;
pub(crate) use pictures::{Budget, Pictures, embedded, jpeg};

/// The style of galleries.
pub(crate) const STYLE: &str = include_str!("assets/gallery.css");
/// Picks that are written out for readers without scripts.
const WRITTEN_OUT: usize = 6;
/// The most reasons of a pick.
const REASONS: usize = 3;

/// Picks that were chosen together.
pub struct PickedBatch {
    /// The name of the strategy.
    pub strategy: String,
    /// What the reasons of its picks mean, in a sentence or two; empty if they have none.
    pub said: String,
    /// The number of the batch, from 1.
    pub batch: usize,
    /// The seed, if there are several.
    pub seed: Option<u64>,
    /// Number of picks, of which `picks` may be the first ones.
    pub total: usize,
    /// The picks, most wanted first.
    pub picks: Vec<ShownPick>,
    /// The side of the pool.
    pub pool: Side,
    /// What the picks change together, for strategies that measure it.
    pub effect: Option<Effect>,
}

/// A pick of a gallery.
pub struct ShownPick {
    /// The id of the item.
    pub id: String,
    /// The score that determined the rank.
    pub score: f64,
    /// Number of pairs that it would be confused with, for strategies that look for them.
    pub hits: Option<u32>,
    /// The text of the pick, in a pool of texts.
    pub text: Option<String>,
    /// The strongest pairs that it would be confused with.
    pub why: Vec<ShownReason>,
    /// Items near it.
    pub near: Vec<ShownNear>,
}

/// An item near a pick.
pub struct ShownNear {
    /// Its id.
    pub id: String,
    /// Its caption, if it is paired or stands for a text.
    pub text: Option<String>,
    /// Whether it is paired.
    pub is_paired: bool,
    /// Of a paired item its cosine with the pick, of another one the share of its uncertainty that the pick's pair
    /// takes away.
    pub value: f64,
}

/// A pair that a pick would be confused with.
pub struct ShownReason {
    /// The item that has the pair's image.
    pub id: String,
    /// The caption of the pair, or its name where captions are not known.
    pub caption: String,
    /// Similarity of the pick to the other half of the pair.
    pub similarity: f64,
    /// Similarity of the hardest rival.
    pub threshold: f64,
}

/// A gallery as HTML.
pub(crate) struct Rendered {
    pub(crate) html: String,
    /// Number of items with a picture, and of all items.
    pub(crate) pictures: (usize, usize),
}

/// A list of texts, each of them once.
#[derive(Default)]
struct Names<'a> {
    all: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn place(&mut self, name: &'a str) -> usize {
        *self.places.entry(name).or_insert_with(|| {
            self.all.push(name);
            self.all.len() - 1
        })
    }
}

/// Returns a gallery. The batch to begin with is the first one whose picks have reasons.
pub(crate) fn gallery(
    id: &str,
    batches: &[PickedBatch],
    dataset: Option<&Dataset>,
    budget: Budget,
    memory: &Memory,
) -> Rendered {
    let pictures = Pictures::of(wanted(batches), dataset, budget, memory);
    let first = batches.iter().position(|batch| batch.picks.iter().any(|pick| pick.is_explained()));
    let first = first.unwrap_or(0);
    let (mut items, mut texts) = (Names::default(), Names::default());
    let groups: Vec<Value> =
        batches.iter().map(|batch| group(batch, &mut items, &mut texts)).collect();
    let shown: serde_json::Map<String, Value> = (items.all.iter().enumerate())
        .filter_map(|(at, name)| Some((at.to_string(), pictures.get(name)?.into())))
        .collect();
    let count = (shown.len(), items.all.len());
    let data = json!({
        "first": first, "items": items.all, "texts": texts.all, "groups": groups, "pictures": shown,
    });
    let cards = batches.get(first).map_or(String::new(), |batch| written_out(batch, &pictures));
    let html = format!(
        "<div class=\"gallery\" id=\"{id}\"><ol class=\"picks\">{cards}</ol>{}</div>\n",
        embedded(&data)
    );
    Rendered { html, pictures: count }
}

/// Returns a page with one batch, for a selection without an experiment. Title and warnings are plain text.
pub fn gallery_page(
    title: &str,
    warnings: &[String],
    batch: PickedBatch,
    dataset: Option<&Dataset>,
    pictures: usize,
) -> String {
    let (budget, memory) = (Budget::of(pictures), Memory::default());
    let Rendered { html, pictures: (shown, all) } =
        gallery("gallery", &[batch], dataset, budget, &memory);
    let note = match (dataset, shown < all) {
        (None, _) => {
            "Without a dataset there are no images and captions to show, only names.".to_owned()
        }
        (Some(_), false) => String::new(),
        (Some(_), true) => format!("{shown} of {all} items have their picture on this page."),
    };
    let synthetic =
        crate::page::synthetic(dataset.is_some_and(|dataset| dataset.manifest().synthetic));
    let warned = |text: &String| {
        let text = typographic(&escaped(text));
        format!("<p class=\"loud\"><strong>Check this first.</strong> {text}</p>\n")
    };
    let warned: String = warnings.iter().map(warned).collect();
    let body = format!(
        "<header><h1>{}</h1><p class=\"note\">{note}{synthetic}</p></header>\n\
         <main>{warned}<section id=\"picks\" aria-label=\"Picks\">{html}</section></main>\n",
        escaped(title)
    );
    let style = style::variables() + include_str!("assets/report.css") + STYLE;
    crate::page::document(title, &style, &body, &crate::script(""))
}

/// Returns the items whose pictures are wanted, most wanted first: seed by seed, by rank, picks before what
/// they would be confused with most, and that before the rest.
fn wanted(batches: &[PickedBatch]) -> impl Iterator<Item = &str> {
    let mut seeds: Vec<Option<u64>> = batches.iter().map(|batch| batch.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let of_seed = move |seed: Option<u64>| {
        let own: Vec<&PickedBatch> = batches.iter().filter(|batch| batch.seed == seed).collect();
        let longest = own.iter().map(|batch| batch.picks.len()).max().unwrap_or(0);
        let mut picks: Vec<&ShownPick> = Vec::new();
        for rank in 0..longest {
            picks.extend(own.iter().filter_map(|batch| batch.picks.get(rank)));
        }
        let mut ids: Vec<&str> = Vec::new();
        for pick in &picks {
            let image = pick.text.is_none().then_some(pick.id.as_str());
            ids.extend(image.into_iter().chain(pick.why.first().map(|why| why.id.as_str())));
        }
        for pick in picks {
            ids.extend(pick.why.iter().take(REASONS).skip(1).map(|why| why.id.as_str()));
            let pictured = pick.near.iter().filter(|near| near.is_paired || near.text.is_none());
            ids.extend(pictured.map(|near| near.id.as_str()));
        }
        ids
    };
    seeds.into_iter().flat_map(of_seed)
}

fn group<'a>(batch: &'a PickedBatch, items: &mut Names<'a>, texts: &mut Names<'a>) -> Value {
    let mut picks = Vec::with_capacity(batch.picks.len());
    for pick in &batch.picks {
        let mut reasons = Vec::new();
        for why in pick.why.iter().take(REASONS) {
            let (anchor, caption) = (items.place(&why.id), texts.place(&why.caption));
            reasons.push(json!([anchor, caption, short(why.similarity), short(why.threshold)]));
        }
        let text = pick.text.as_ref().map(|text| texts.place(text));
        let near = pick.near.iter().map(|near| {
            let text = near.text.as_ref().map(|text| texts.place(text));
            json!([items.place(&near.id), text, near.is_paired, near.label(batch.pool)])
        });
        let (near, score) = (near.collect::<Vec<_>>(), short(pick.score));
        let part = batch.part_of(pick);
        picks.push(json!([items.place(&pick.id), score, pick.hits, reasons, text, part, near]));
    }
    json!({
        "strategy": batch.strategy, "said": batch.said(), "batch": batch.batch, "seed": batch.seed,
        "total": batch.total, "picks": picks, "learn": batch.learn(),
    })
}

impl PickedBatch {
    /// Says which part of what the batch lowers is a pick's own; nothing if that was not measured.
    fn part_of(&self, pick: &ShownPick) -> String {
        let effect = self.effect.filter(|effect| effect.before > 0.0);
        effect.map_or(String::new(), |Effect { measure, before, .. }| {
            let of = match measure {
                Measure::Uncertainty => "the uncertainty",
                Measure::Uncovered => "what is uncovered",
            };
            format!(", takes away {} of {of}", percent(pick.score / before))
        })
    }

    /// Says what reasons and neighbours mean, and what the batch changes.
    fn said(&self) -> String {
        let (half, with) =
            (self.pool.own_and_other("image", "caption").0, with_other_half(self.pool));
        let near = |paired: bool| {
            self.picks.iter().flat_map(|pick| &pick.near).any(|near| near.is_paired == paired)
        };
        let nearest = format!("the {half} most like it that has {with}");
        let learners = match self.effect.map(|effect| effect.measure) {
            Some(Measure::Uncertainty) => {
                "become most certain once it has one, each with the share of its uncertainty that goes away"
            }
            Some(Measure::Uncovered) => {
                "it covers so much better, each with the share of what was uncovered"
            }
            None => "learn most once it has one",
        };
        let learners = format!("{half}s of the pool that {learners}");
        let near = match (near(true), near(false)) {
            (true, true) => format!("Under each {half} are {nearest}, and the {learners}."),
            (true, false) => format!("Under each {half} is {nearest}."),
            (false, true) => format!("Under each {half} are the {learners}."),
            (false, false) => String::new(),
        };
        let effect = self.effect.map(|effect| format!("The batch: {effect}."));
        let parts = [self.said.clone(), near, effect.unwrap_or_default()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Says what the pool items under a pick are.
    fn learn(&self) -> String {
        let with = with_other_half(self.pool);
        match self.effect.map(|effect| effect.measure) {
            Some(Measure::Uncertainty) => format!("More certain once it has {with}"),
            Some(Measure::Uncovered) => format!("Better covered once it has {with}"),
            None => format!("They learn most once it has {with}"),
        }
    }
}

impl ShownPick {
    fn is_explained(&self) -> bool {
        !self.why.is_empty() || !self.near.is_empty()
    }
}

impl ShownNear {
    fn label(&self, pool: Side) -> String {
        match self.is_paired {
            true => {
                format!("Nearest that has {} (cosine {:.2})", with_other_half(pool), self.value)
            }
            false => percent(self.value),
        }
    }
}

fn with_other_half(pool: Side) -> &'static str {
    pool.own_and_other("an image", "a caption").1
}

/// Formats a share in percent: 41 %, 3.1 %, 0.04 %.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = if percent >= 9.95 {
        0
    } else if percent >= 0.995 {
        1
    } else {
        2
    };
    typographic(&format!("{percent:.digits$} %"))
}

/// Rounds a number to the digits that are shown.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Returns the first picks of a batch as cards.
fn written_out(batch: &PickedBatch, pictures: &Pictures) -> String {
    let picks = || batch.picks.iter().take(WRITTEN_OUT);
    let reasons = picks().flat_map(|pick| pick.why.iter().take(REASONS));
    let bars = Bars::of(reasons.map(|why| (why.similarity, why.threshold)));
    let cards =
        picks().enumerate().map(|(rank, pick)| card(rank + 1, (pick, batch), pictures, &bars));
    cards.collect()
}

fn card(
    rank: usize,
    (pick, batch): (&ShownPick, &PickedBatch),
    pictures: &Pictures,
    bars: &Bars,
) -> String {
    let own = match &pick.text {
        Some(text) => format!("<blockquote>{}</blockquote>", escaped(text)),
        None => pictures.frame(&pick.id),
    };
    let hits = match pick.hits {
        // Picked because the hits ran out.
        Some(0) => ", confused with no pair: it fills the batch".to_owned(),
        Some(1) => ", confused with 1 pair".to_owned(),
        Some(hits) => format!(", confused with {hits} pairs"),
        None => String::new(),
    };
    let mut html = format!(
        "<li class=\"pick\">{own}<p class=\"name\"><span class=\"rank\">{rank}</span> {}</p>\
         <p class=\"note\">score {}{hits}{}</p>",
        escaped(&pick.id),
        typographic(&format!("{:.3}", pick.score)),
        batch.part_of(pick)
    );
    if !pick.why.is_empty() {
        html += "<ul class=\"reasons\">";
        for why in pick.why.iter().take(REASONS) {
            let picture = if pictures.get(&why.id).is_some() {
                pictures.frame(&why.id)
            } else {
                String::new()
            };
            // Writing to a string cannot fail.
            let _ = write!(
                html,
                "<li>{picture}<div><p class=\"said\">{}</p>{}</div></li>",
                escaped(&why.caption),
                bars.bar(why.similarity, why.threshold)
            );
        }
        html += "</ul>";
    }
    let (paired, pool): (Vec<_>, Vec<_>) = pick.near.iter().partition(|near| near.is_paired);
    for near in paired {
        html += &format!("<div class=\"near\"><p class=\"note\">{}</p>", near.label(batch.pool));
        html += &format!("<ul class=\"reasons\"><li>{}</li></ul></div>", shown(near, pictures));
    }
    if !pool.is_empty() {
        let one = |near: &&ShownNear| {
            let label = near.label(batch.pool);
            format!("<li>{}<p class=\"note\">{label}</p></li>", shown(near, pictures))
        };
        let all: String = pool.iter().map(one).collect();
        html += &format!("<div class=\"near\"><p class=\"note\">{}</p>", batch.learn());
        html += &format!("<ul class=\"learners\">{all}</ul></div>");
    }
    html + "</li>\n"
}

/// The picture and the text of an item, or its name.
fn shown(near: &ShownNear, pictures: &Pictures) -> String {
    let picture = pictures.get(&near.id).map_or(String::new(), |_| pictures.frame(&near.id));
    let name = picture.is_empty().then_some(&near.id);
    let text = near.text.as_ref().or(name).map(|text| escaped(text));
    picture + &text.map_or(String::new(), |text| format!("<p class=\"said\">{text}</p>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><script>alert('x')</script> & \"more\"";

    fn pick(rank: usize, text: Option<&str>) -> ShownPick {
        let why = |at: usize| ShownReason {
            id: format!("<i>{at}</i>"),
            caption: HOSTILE.to_owned(),
            similarity: 0.7,
            threshold: 0.5,
        };
        ShownPick {
            id: format!("item <{rank}>"),
            score: 1.0 / rank as f64,
            hits: Some(1),
            text: text.map(str::to_owned),
            why: (0..4).map(why).collect(),
            near: Vec::new(),
        }
    }

    fn near(id: &str, text: Option<&str>, value: f64) -> ShownNear {
        let is_paired = text.is_some();
        ShownNear { id: id.to_owned(), text: text.map(str::to_owned), is_paired, value }
    }

    fn batch(strategy: &str, picks: Vec<ShownPick>) -> PickedBatch {
        let (strategy, said) = (strategy.to_owned(), String::new());
        let (pool, effect) = (Side::Image, None);
        PickedBatch { strategy, said, batch: 1, seed: Some(0), total: 40, picks, pool, effect }
    }

    #[test]
    fn neighbours_are_shown_with_what_they_learn() {
        let near =
            vec![near("a", Some(HOSTILE), 0.831), near("<b>", None, 0.41), near("c", None, 0.004)];
        let picks = vec![ShownPick { hits: None, why: Vec::new(), near, ..pick(2, None) }];
        let measure = Measure::Uncertainty;
        let effect = Some(Effect { measure, before: 5.0, after: 1.5, random: 2.25 });
        let batches = [batch("random", Vec::new()), PickedBatch { effect, ..batch("v", picks) }];
        let html = gallery("g", &batches, None, Budget::of(5), &Memory::default()).html;
        for said in [
            "score 0.500, takes away 10 % of the uncertainty<",
            "Nearest that has a caption (cosine 0.83)",
            "More certain once it has a caption",
            "&lt;b&gt;</p><p class=\"note\">41 %<",
            ">0.40 %<",
            "The batch: uncertainty 5.000 before, 1.500 after; a random batch of the same size leaves 2.250.",
        ] {
            assert!(html.contains(said), "{said}: {html}");
        }
        assert!(!html.contains("<b>") && html.matches("<script").count() == 1, "{html}");
        let order: Vec<&str> = wanted(&batches).collect();
        assert_eq!(order, ["item <2>", "a", "<b>", "c"]);
    }

    #[test]
    fn hostile_names_and_captions_are_text() {
        for text in [None, Some(HOSTILE)] {
            let batches = [batch("random", Vec::new()), batch("hard", vec![pick(1, text)])];
            let html = gallery("g", &batches, None, Budget::of(5), &Memory::default()).html;
            assert_eq!(html.matches("<script").count(), 1, "{html}");
            assert!(!html.contains("<i>0") && html.contains("item &lt;1&gt;"), "{html}");
            assert!(html.contains("confused with 1 pair<") && html.contains("(+0.200)"), "{html}");
            let (picks, warnings) =
                (batch("hard", vec![pick(1, text)]), ["1 < 2; --dedupe".to_owned()]);
            let page = gallery_page("a <b>", &warnings, picks, None, 5);
            assert!(page.contains("<h1>a &lt;b&gt;</h1>") && page.contains("only names"));
            assert!(page.contains("Check this first.</strong> 1 &lt; 2; --dedupe</p>"));
        }
    }

    #[test]
    fn the_script_gets_every_name_once() {
        let batches = [
            batch("random", vec![pick(1, None), pick(2, None)]),
            batch("hard", (1..=9).map(|rank| pick(rank, None)).collect()),
        ];
        let html = gallery("g", &batches, None, Budget::of(5), &Memory::default()).html;
        let (_, rest) = html.split_once("<script type=\"application/json\">").unwrap();
        let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
        assert_eq!(data["texts"], json!([HOSTILE]));
        assert_eq!(data["items"].as_array().unwrap().len(), 9 + 3, "picks and three anchors");
        let group = &data["groups"][1];
        assert_eq!((&group["strategy"], &group["total"]), (&json!("hard"), &json!(40)));
        let first = &group["picks"][0];
        let name = &data["items"][first[0].as_u64().unwrap() as usize];
        assert_eq!((name, &first[1], &first[2]), (&json!("item <1>"), &json!(1.0), &json!(1)));
        assert_eq!(first[3].as_array().unwrap().len(), REASONS);
        // Without scripts there are the first ones.
        assert_eq!(
            html.matches("<li class=\"pick\">").count(),
            2,
            "those of the first batch with reasons"
        );
    }

    #[test]
    fn pictures_of_first_picks_are_wanted_most() {
        let mut later = batch("hard", vec![pick(1, None), pick(3, None)]);
        later.seed = Some(1);
        let batches = [later, batch("random", vec![pick(1, None), pick(2, None)])];
        let order: Vec<&str> = wanted(&batches).collect();
        assert_eq!(order[..5], ["item <1>", "<i>0</i>", "item <2>", "<i>0</i>", "<i>1</i>"]);
        assert!(order.contains(&"item <3>"));
    }
}
