//! The page of a large experiment has all the pictures it promises, is small enough to mail, and opens.

use std::fs;

use image::RgbImage;
use nextpair::data::queue;
use nextpair::engine::Draws;
use nextpair::report::{Options, PICTURES, write};
use nextpair::scenario::{Round, Study};
use serde_json::json;

use super::{look_at, open, succeeds};
use crate::scenario::files_below;

const SEEDS: u64 = 20;
const ROUNDS: usize = 4;
const IMAGES: usize = 900;
/// The grain with which a picture takes about as many bytes as a photograph does on average.
const PHOTOGRAPH: usize = 28;

#[test]
fn a_large_report_is_small_and_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    succeeds(folder.path(), &format!("import scenes ds --images {IMAGES}"));
    let text = "dataset = \"ds\"\ninitial = 0.1\nbudget = 100\nrounds = 1\nprice = 0.5\nseeds = [0]\n\
                strategies = [\"random\", \"hard-negative\", \"coverage\", \"core-set\", \"hybrid\"]\n\n\
                [model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n\n\
                [training]\nepochs = 1\nbatch = 32\nvalidate_last = 0\n";
    fs::write(path("e.toml"), text).unwrap();
    succeeds(folder.path(), "run e.toml --out run");
    let mut draws = Draws::new(1);
    let study = enlarged(Study::open(&path("run")).unwrap(), &mut draws);
    let options = Options { dataset: Some(path("ds")), ..Options::default() };
    // With pictures that are as hard to compress as pictures can be, there are fewer of them.
    for (grain, fewest) in [(256, PICTURES / 5), (PHOTOGRAPH, PICTURES)] {
        for path in files_below(&path("ds/images")) {
            grainy(grain, &mut draws).save(path).unwrap();
        }
        let written = write(std::slice::from_ref(&study), &options, &path("page"), &()).unwrap();
        assert!(written.left_out.is_empty(), "{:?}", written.left_out);
        let page = fs::read_to_string(&written.page).unwrap();
        assert!(page.len() < 9_000_000, "{}", page.len());
        let pictures = pictures(&page);
        assert!((fewest..=PICTURES).contains(&pictures), "{pictures} of {fewest}, {}", page.len());
        assert!(page.contains(&format!(" {pictures} of ")), "the page says how many it has");
    }

    let browser = open(&path("page/report.html"));
    let loaded = "return performance.getEntriesByType('navigation')[0].loadEventEnd > 0";
    browser.until("the page is loaded", || browser.script(loaded).as_bool().filter(|is| *is));
    let batches = "const [strategies, batches, seeds] = document.querySelectorAll('.gallery select'); \
                   return [strategies.length, batches.length, seeds.length]";
    assert_eq!(browser.script(batches), json!([5, ROUNDS, SEEDS]));
    look_at(&browser, "report-large");
}

/// Returns a picture with grain. It is as hard to compress as its grain is strong.
fn grainy(grain: usize, draws: &mut Draws) -> RgbImage {
    RgbImage::from_fn(240, 180, |x, y| {
        let base = [x / 2 + 40, y * 4 / 5 + 30, (x + y) * 2 / 5];
        let value = |base: u32| {
            let noise = draws.below(2 * grain + 1) as i64 - grain as i64;
            (i64::from(base) + noise).clamp(0, 255) as u8
        };
        image::Rgb(base.map(value))
    })
}

/// Returns the number of pictures in the gallery of a page.
fn pictures(page: &str) -> usize {
    let (_, gallery) = page.split_once("<div class=\"gallery\"").unwrap();
    let (_, data) = gallery.split_once("<script type=\"application/json\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    data["pictures"].as_object().unwrap().len()
}

/// Makes an experiment of many seeds and rounds of one that has one of each.
fn enlarged(mut study: Study, draws: &mut Draws) -> Study {
    let (first, start) = (study.rounds.clone(), study.rounds[0].paired);
    study.experiment.seeds = (0..SEEDS).collect();
    study.experiment.rounds = ROUNDS;
    study.rounds.clear();
    for seed in 0..SEEDS {
        for round in &first {
            let rounds = if round.round == 0 { 0..=0 } else { 1..=ROUNDS };
            for number in rounds {
                let mut made = Round { seed, round: number, ..round.clone() };
                made.paired = start + 100 * number;
                for test in &mut made.test {
                    test.text.r1 = 20.0 + 2.0 * number as f64 + draws.normal();
                    test.image.r1 = 15.0 + 2.0 * number as f64 + draws.normal();
                }
                if let Some(strategy) = &made.strategy {
                    let from = study.folder.picks(0, strategy, 1);
                    let to = study.folder.picks(seed, strategy, number);
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    let mut tasks = queue::read(&from).unwrap();
                    for (at, task) in tasks.iter_mut().enumerate() {
                        let item = (7 * at + 131 * number + 17 * seed as usize) % IMAGES;
                        task.id = format!("scene-{item:06}");
                    }
                    queue::write(&to, &tasks).unwrap();
                }
                study.rounds.push(made);
            }
        }
    }
    study
}
