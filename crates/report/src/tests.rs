//! Reports of made-up experiments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::fixture::Fixture;

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

fn report(studies: &[Study], options: &Options) -> (BTreeMap<String, Vec<u8>>, Written) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/report");
    let written = write(studies, options, &out, &()).unwrap();
    (files(&out), written)
}

/// Asserts that every element is closed in order, except for void elements of HTML.
fn check_balanced(text: &str) {
    // Scripts have their own brackets.
    let scripts: Vec<&str> = text.split("<script").collect();
    let without =
        |part: &&str| part.split_once("</script>").map_or("", |(_, rest)| rest).to_owned();
    let text = scripts[0].to_owned() + &scripts[1..].iter().map(without).collect::<String>();
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        let alone = tag.ends_with('/') || tag.starts_with('!');
        if alone || ["meta", "link", "img", "br"].contains(&name) {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(_) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_report_has_everything_and_needs_nothing() {
    let fixture = Fixture::default();
    let (files, written) = report(&[fixture.study()], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    for part in [
        "Synthetic data.",
        "What to do",
        "Buy the next 100 captions",
        "One measure decides",
        "What was tried",
        "Learning curves",
        "Recall by round",
        "Ranks after the last batch",
        "Differences to random",
        "95 % simultaneous interval",
        "What a chosen caption is worth",
        "Hard negatives by round",
        "Where the picks lie",
        "What was picked, and why",
        "Left out: ",
        "Stop or go",
        "Time and memory",
        "peak of the whole process",
        "How it was made",
    ] {
        assert!(page.contains(part), "{part}");
    }
    check_balanced(&page);
    // The dataset is missing.
    assert_eq!(written.left_out.len(), 2);
    let text = page.replace("http://www.w3.org/2000/svg", "").replace("url(data:", "");
    for outside in ["http:", "https:", "<script src", "@import", "url(", "import "] {
        assert!(!text.contains(outside), "{outside}");
    }
    // Browsers let in its own style and script by their hashes, and nothing that was put into it.
    let policy = crate::page::policy(&page).unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(
        !policy.contains("unsafe") && !page.contains(" style=\"") && !page.contains(" onclick=")
    );
    assert_eq!((page.matches("<style").count(), policy.matches("'sha256-").count()), (1, 2));
    // What people wrote is neither markup nor script.
    assert!(!page.contains("<script>alert") && page.matches("<script>").count() == 1);
    assert!(page.contains("scenes &lt;b&gt;&amp; more&lt;/b&gt;"));
    for name in ["text-r1", "image-r1", "differences", "hard-negatives"] {
        check_balanced(std::str::from_utf8(&files[&format!("{name}.svg")]).unwrap());
        assert!(files[&format!("{name}.png")].starts_with(b"\x89PNG"), "{name}");
    }
    let json: serde_json::Value = serde_json::from_slice(&files["results.json"]).unwrap();
    assert_eq!(json["runs"][0]["arms"].as_array().unwrap().len(), 4);
    let csv = String::from_utf8(files["results.csv"].clone()).unwrap();
    // A shared round and three of each strategy, three seeds; fourteen recalls and ranks, five
    // phases, and the share of two strategies.
    assert_eq!(csv.lines().count(), 1 + 3 * (13 * 19 + 2 * 3));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let fixture = Fixture::default();
    let study = fixture.study();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| report(std::slice::from_ref(&study), &Options::default()).0)
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn one_seed_has_no_interval_anywhere() {
    let fixture = Fixture::default().seeds(&[0]);
    let (files, _) = report(&[fixture.study()], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("one seed: no interval") && !page.contains('±'.to_string().as_str()));
    assert!(!page.contains("class=\"band"));
}

#[test]
fn rows_of_fewer_seeds_say_so() {
    let mut study = Fixture::default().study();
    let (files, _) = report(std::slice::from_ref(&study), &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("All strategies share e=0.") && page.contains("<strong>"));
    let coverage = "coverage".parse().ok();
    study.rounds.retain(|round| (round.seed, round.round) != (2, 3) || round.strategy != coverage);
    let (files, _) = report(&[study], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(
        page.contains("coverage<small> 2 seeds</small>") && page.contains("coverage (2 seeds)")
    );
    assert!(!page.contains("All strategies share e=0."));
    check_balanced(&page);
}

#[test]
fn conditions_are_rows_of_the_papers_table() {
    let fixture = Fixture::default().arms(&["random", "all-conditions"]);
    let (files, _) = report(&[fixture.study()], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("After 3 batches, of 12 strategies"));
    assert!(page.contains("Full-batch + Top-1</th><td class=\"name\">Surplus</td>"));
    assert!(page.contains("Mini-batch 29.4% + Top-10</th><td class=\"name\">Count</td>"));
    check_balanced(&page);
}

#[test]
fn runs_side_by_side_keep_their_files_apart() {
    let (one, other) = (Fixture::default(), Fixture::default().two_arms());
    let options = Options { compare: true, ..Options::default() };
    let (files, written) = report(&[one.study(), other.study()], &options);
    assert_eq!(written.analysis.runs.len(), 2);
    for name in ["1-text-r1.svg", "2-text-r1.svg", "compared-text-r1.svg"] {
        assert!(files.contains_key(name), "{name}");
    }
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("Experiments side by side") && page.contains("All experiments"));
    check_balanced(&page);
}

#[test]
fn three_runs_look_different() {
    let runs = [Fixture::default(), Fixture::default(), Fixture::default()];
    let studies: Vec<Study> = runs.iter().map(|run| run.study()).collect();
    let options = Options { compare: true, ..Options::default() };
    let (files, _) = report(&studies, &options);
    let chart = String::from_utf8(files["compared-text-r1.svg"].clone()).unwrap();
    for dashes in ["series l1\"", "series l1 dotted\"", "series l1 long\""] {
        assert!(chart.contains(dashes), "{dashes}");
    }
}

#[test]
fn several_runs_show_what_captions_are_worth_in_each() {
    let runs = [Fixture::default(), Fixture::default(), Fixture::default()];
    let mut studies: Vec<Study> = runs.iter().map(|run| run.study()).collect();
    for round in studies.iter_mut().flat_map(|study| &mut study.rounds) {
        let wobble = 0.001 * (round.seed as f64 + round.round as f64).sin();
        round.test[0].image.mean_log_rank = 9.0 - (round.paired as f64).ln() + wobble;
    }
    let options = Options { compare: true, ..Options::default() };
    let (files, written) = report(&studies, &options);
    let chart = |name: &str| String::from_utf8(files[name].clone()).unwrap();
    let worths = chart("compared-worth.svg");
    let first = &written.analysis.runs[0];
    let strategies: Vec<String> = first.arms.iter().map(|arm| arm.strategy.to_string()).collect();
    for strategy in strategies.iter().filter(|name| *name != "random") {
        assert!(worths.contains(&format!(">{strategy}</text>")), "{strategy}");
    }
}

#[test]
fn a_run_without_rounds_is_reported_as_such() {
    let mut study = Fixture::default().study();
    study.rounds.clear();
    let (files, _) = report(&[study], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains("No round is finished yet") && page.contains("0 of 3 seeds finished"));
}

#[test]
fn every_test_that_was_asked_for_is_reported() {
    let (one, other) = (Fixture::default().tested_in_parts(), Fixture::default().two_arms());
    let (files, _) = report(&[one.study()], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    for part in [
        "1,000 images at once, which decides, and 5 parts of 200 images, averaged",
        ">Recall by round<a class=\"anchor\"",
        ">Recall by round, 5 parts of 200 images, averaged<a class=\"anchor\"",
        ">Learning curves, 5 parts of 200 images, averaged<a class=\"anchor\"",
        ">Differences to random, 5 parts of 200 images, averaged<a class=\"anchor\"",
        ">What a chosen caption is worth, 5 parts of 200 images, averaged<a class=\"anchor\"",
        ">Hard negatives by round<a class=\"anchor\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    check_balanced(&page);
    for name in ["text-r1.svg", "5-folds-text-r1.svg", "5-folds-differences.png"] {
        assert!(files.contains_key(name), "{name}");
    }
    let csv = String::from_utf8(files["results.csv"].clone()).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][5..], ["metric", "value", "folds"]);
    let of = |metric: &str, folds: &str| {
        let fits = |row: &&Vec<&str>| (row[5], row[7]) == (metric, folds);
        rows.iter().filter(fits).count()
    };
    // Three seeds with a shared round and twelve others.
    assert_eq!((of("text_r1", "1"), of("text_r1", "5"), of("text_r1", "")), (39, 39, 0));
    assert_eq!((of("training_seconds", ""), of("image_mean_rank", "5")), (39, 39));

    let options = Options { compare: true, ..Options::default() };
    let (files, _) = report(&[one.study(), other.study()], &options);
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(!page.contains(">All experiments, 5 parts"), "one of them has no such test");
    let (files, _) = report(&[one.study(), other.tested_in_parts().study()], &options);
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(page.contains(">All experiments, 5 parts of 200 images, averaged<a class=\"anchor\""));
    assert!(files.contains_key("5-folds-compared-text-r1.svg"));
    assert!(files.contains_key("2-5-folds-text-r1.svg"));
    check_balanced(&page);
}

#[test]
fn without_dev_the_page_says_which_weights_were_kept() {
    let mut study = Fixture::default().two_arms().study();
    let page = |study: &Study| {
        let (files, _) = report(std::slice::from_ref(study), &Options::default());
        String::from_utf8(files["report.html"].clone()).unwrap()
    };
    assert!(page(&study).contains("those of the last epoch; none were evaluated on dev"));
    study.rounds.iter_mut().for_each(|round| round.dev = round.test.first().copied());
    assert!(page(&study).contains("those that did best on 1,000 images of dev"));
    study.experiment.training.average_last = 5;
    assert!(page(&study).contains("the mean of the last 5 epochs"));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let none = write(&[], &Options::default(), folder.path(), &()).unwrap_err();
    assert!(none.to_string().contains("no experiment"), "{none}");
    let options = Options { price: Some(f64::NAN), ..Options::default() };
    let study = Fixture::default().study();
    let price = write(&[study], &options, folder.path(), &()).unwrap_err().to_string();
    assert!(price.contains("price"), "{price}");
}

#[test]
fn the_first_screen_decides_with_money() {
    let study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
    let options = Options { currency: Some("EUR".to_owned()), ..Options::default() };
    let (files, written) = report(std::slice::from_ref(&study), &options);
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    for part in [
        "<p class=\"headline\">Buy the next 100 captions with hard-negative.</p>",
        "<strong>EUR 25</strong><span>100 items at EUR 0.25; EUR ",
        "<dt>How sure</dt><dd><strong>Sure</strong>",
        "hard-negative <span class=\"tag good\">recommended</span>",
        "<strong>Buy the next 100 captions with hard-negative.</strong> hard-negative: The next 100",
        "They cost EUR 25, EUR ",
        "<th scope=\"col\">Cost per point</th>",
        "<code>nextpair run ",
        "simulated: the captions that the dataset has already",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The contents name every section by its id.
    for id in ["decision", "tried", "curves", "recall", "differences", "stop-or-go", "making"] {
        assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id}");
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    let json: serde_json::Value = serde_json::from_slice(&files["results.json"]).unwrap();
    let run = &json["runs"][0];
    assert_eq!(run["recommendation"]["strategy"], "hard-negative");
    assert_eq!(run["recommendation"]["reason"], "better");
    assert_eq!(run["currency"], "EUR");
    assert_eq!(run["arms"][1]["difference"]["by_seed"].as_array().unwrap().len(), 4);
    assert_eq!(written.analysis.runs[0].money(2.5), "EUR 2.50");
    let wrong = Options { currency: Some("a long story".to_owned()), ..Options::default() };
    let what = write(&[study], &wrong, tempfile::tempdir().unwrap().path(), &()).unwrap_err();
    assert!(what.to_string().contains("is not a currency"), "{what}");
}

#[test]
fn charts_can_be_read_without_scripts() {
    let (files, _) = report(&[Fixture::default().study()], &Options::default());
    let page = String::from_utf8(files["report.html"].clone()).unwrap();
    assert!(
        page.contains("<title>random, 400 paired items: "),
        "values are titles of their points"
    );
    assert!(page.contains("<title>hard-negative, seed 2: "), "every seed has a dot");
    assert!(page.contains("<ul class=\"legend\"") && page.contains("<span>core-set</span>"));
    let file = String::from_utf8(files["log-rank.svg"].clone()).unwrap();
    assert!(file.contains(">core-set</text>") && file.contains("the measure that decides"));
}

#[test]
fn a_model_near_chance_and_odd_batches_are_named() {
    let fixture = Fixture::default();
    let mut study = fixture.study();
    let page = |study: &Study| {
        let (files, _) = report(std::slice::from_ref(study), &Options::default());
        String::from_utf8(files["report.html"].clone()).unwrap()
    };
    assert!(!page(&study).contains("What to check"));
    let test = &mut study.rounds[0].test[0];
    (test.text.r1, test.image.r1, test.image.mean_rank) = (0.1, 0.1, 500.0);
    let batch = study.rounds.iter_mut().find_map(|round| round.batch.as_mut()).unwrap();
    let (kind, text) = ("copies".to_owned(), "<b>3</b> items are copies".to_owned());
    batch.warnings.push(nextpair_scenario::Warning { kind, text });
    let page = page(&study);
    check_balanced(&page);
    for says in ["What to check", "near chance on the test", "&lt;b&gt;3&lt;/b&gt; items"] {
        assert!(page.contains(says), "{says}");
    }
}
