//! The pictures that every strategy bought first, side by side. What shows a picture that is paired already, or that
//! the same batch has before it, is faint and comes last, as do items without a picture: near-copies and junk of a
//! generated pool are seen at once.

use std::collections::HashSet;

use image::imageops::FilterType;
use image::{DynamicImage, RgbImage};
use nextpair_data::dataset::Dataset;
use rayon::prelude::*;

use crate::card::Card;
use crate::chart::{Chart, SCALE, Tile, WIDE};

const COLUMNS: usize = 20;
/// The most rows of a batch, and of all batches.
const MOST: usize = 3;
const MOST_OF_ALL: usize = 12;
const PITCH: f64 = WIDE / COLUMNS as f64;
const SIDE: f64 = PITCH - 2.0;
/// Room for the name of a strategy, and between strategies.
const HEAD: f64 = 20.0;
const BETWEEN: f64 = 12.0;

/// Draws batches: names of strategies with their picks, most wanted first. `paired` are the items that were paired
/// before. `None` if no pick has a picture.
pub(crate) fn bought(
    name: &str,
    dataset: &Dataset,
    paired: &[usize],
    batches: &[(String, Vec<usize>)],
) -> Option<Chart> {
    let picture_of = |item: usize| dataset.items().get(item).image;
    let known: HashSet<String> = paired.iter().filter_map(|&item| picture_of(item)).collect();
    let description = "The pictures of the first picks of every strategy.";
    let mut chart = Chart::new(name, "What each strategy bought first", description);
    chart.width = WIDE;
    let most = COLUMNS * MOST.min(MOST_OF_ALL / batches.len().max(1));
    let mut top = 0.0;
    let mut repeats = false;
    for (strategy, picks) in batches {
        let picks = &picks[..picks.len().min(most)];
        let mut seen = known.clone();
        let mut is_new =
            |item: &usize| picture_of(*item).is_some_and(|picture| seen.insert(picture));
        let (new, mut again): (Vec<usize>, Vec<usize>) =
            picks.iter().partition(|&item| is_new(item));
        again.sort_by_cached_key(|&item| picture_of(item));
        repeats |= again.iter().any(|&item| picture_of(item).is_some());
        let all: Vec<usize> = new.iter().chain(&again).copied().collect();
        let tiles: Vec<Option<RgbImage>> =
            all.par_iter().map(|&item| tile(dataset, item)).collect();
        let label = format!("{strategy}: {} of {} pictures are new", new.len(), all.len());
        chart.text(0.0, top + 13.0, "key", &label);
        top += HEAD;
        for (at, image) in tiles.into_iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            let place = (PITCH * column as f64, top + PITCH * row as f64);
            match image {
                Some(image) => {
                    chart.tiles.push(Tile { place, side: SIDE, image, faint: at >= new.len() });
                }
                None => chart.frame(place, SIDE),
            }
        }
        top += PITCH * all.len().div_ceil(COLUMNS) as f64 + BETWEEN;
    }
    chart.height = top - BETWEEN;
    if repeats {
        chart.note =
            "faint: a near-copy of a picture that had a caption, or was bought, before".to_owned();
    }
    (!chart.tiles.is_empty()).then_some(chart)
}

/// Returns the picture of an item, cut to a square.
fn tile(dataset: &Dataset, item: usize) -> Option<RgbImage> {
    let picture = DynamicImage::ImageRgb8(Card::of(dataset, item).thumbnail.ok()?);
    let side = (f64::from(SCALE) * SIDE) as u32;
    Some(picture.resize_to_fill(side, side, FilterType::Triangle).into_rgb8())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nextpair_data::import::import_scenes;
    use nextpair_data::scenes::Settings;

    use super::*;

    #[test]
    fn near_copies_are_faint_and_come_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ds");
        let settings = Settings { images: 10, ..Settings::default() };
        import_scenes(&settings, &path, &()).unwrap();
        // The second item shows the picture of the first.
        let items = path.join("items.jsonl");
        let text = fs::read_to_string(&items).unwrap();
        fs::write(&items, text.replace("scene-000001.png", "scene-000000.png")).unwrap();
        let dataset = Dataset::open(&path).unwrap();
        let batches = [("one".to_owned(), vec![2, 1, 0, 3]), ("other".to_owned(), vec![4])];
        let chart = bought("bought", &dataset, &[2], &batches).unwrap();
        let faint: Vec<bool> = chart.tiles.iter().map(|tile| tile.faint).collect();
        assert_eq!(faint, [false, false, true, true, false]);
        let pixels = |item: usize| tile(&dataset, item).unwrap();
        let shown: Vec<&RgbImage> = chart.tiles.iter().map(|tile| &tile.image).collect();
        assert_eq!(shown, [1, 3, 0, 2, 4].map(pixels).iter().collect::<Vec<_>>());
        let file = chart.standalone();
        assert!(file.contains(">one: 2 of 4 pictures are new</text>"), "{file}");
        assert!(
            file.contains(">other: 1 of 1 pictures are new</text>") && file.contains(">faint: ")
        );
        assert_eq!((file.matches("<image ").count(), file.matches(" opacity=").count()), (5, 2));
        // What is faint is nearly as bright as paper, in PNG too.
        let png = image::load_from_memory(&chart.png().unwrap()).unwrap().into_rgb8();
        let darkest = |at: usize| {
            let (x, y) = chart.tiles[at].place;
            let (left, top) =
                (2.0 * (x + 14.0), f64::from(png.height()) - 2.0 * (chart.height - y + 14.0));
            let place = |at: u32| (left as u32 + at % 60, top as u32 + at / 60);
            (0..3600)
                .map(place)
                .map(|(x, y)| png.get_pixel(x, y).0.into_iter().min())
                .min()
                .flatten()
                .unwrap()
        };
        assert!(darkest(2) > 160 && darkest(0) < 160, "{} {}", darkest(2), darkest(0));
        assert!(bought("bought", &dataset, &[], &[("none".to_owned(), Vec::new())]).is_none());
    }
}
