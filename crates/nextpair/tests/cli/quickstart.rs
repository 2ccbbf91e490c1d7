//! `nextpair quickstart`, its answer, and a bad folder; `nextpair example`.

use serde_json::Value;

use crate::world::nextpair;

#[test]
fn the_quickstart_ends_with_an_answer_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let run = nextpair(folder.path(), "quickstart --fast");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report = folder.path().join("quickstart/run/report");
    let read = |name: &str| std::fs::read_to_string(report.join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("results.json")).unwrap();
    let of = |strategy: &str| -> Value {
        let arms = json["runs"][0]["arms"].as_array().unwrap();
        arms.iter().find(|arm| arm["strategy"] == strategy).unwrap()["difference"].clone()
    };
    let (chosen, paper) = (of("v-optimal"), of("hard-negative"));
    assert!(chosen["worth"]["low"].as_f64().unwrap() > 1.0, "{chosen}");
    assert!(paper["worth"]["high"].as_f64().unwrap() < 1.0, "{paper}");
    assert_eq!(json["runs"][0]["recommendation"]["strategy"], "v-optimal");
    let answer = run.stdout.lines().last().unwrap();
    let says = "On synthetic data, 100 captions chosen by v-optimal were worth ";
    assert!(answer.starts_with(says) && !answer.contains("chance"), "{answer}");
    let page = read("report.html");
    assert!(page.contains(&answer[..says.len() + 3]) && page.contains("<section id=\"bought\""));
    // A person sees that random buys near-copies, and that the paper's strategy buys nothing else.
    let pictures = read("bought.svg");
    let new = |strategy: &str| -> usize {
        let (_, rest) = pictures.split_once(&format!(">{strategy}: ")).unwrap();
        rest.split_once(" of 60 pictures are new<").unwrap().0.parse().unwrap()
    };
    let [paper, random, chosen] = ["hard-negative", "random", "v-optimal"].map(new);
    assert!(paper < 10 && random + 10 < chosen, "{paper}, {random}, {chosen}");
    let lines: Vec<&str> = run.stderr.lines().rev().take(3).collect();
    assert!(lines[0].starts_with("next        nextpair "), "{}", run.stderr);
    assert_eq!(lines[2], "pictures    quickstart/run/report/bought.png");
    assert!(report.join("bought.png").exists());
}

#[test]
fn a_folder_that_is_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken"), "a file").unwrap();
    let run = nextpair(folder.path(), "quickstart --fast --out taken");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("taken: "), "{}", run.stderr);
    assert_eq!(std::fs::read(folder.path().join("taken")).unwrap(), b"a file");
}

#[test]
fn examples_are_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let run = nextpair(folder.path(), &format!("example {name}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains("nextpair select --paired-images"), "{}", run.stderr);
    }
    for file in ["paired_images.npy", "paired_texts.npy", "pool.npy"] {
        let [a, b] = ["a", "b"].map(|name| std::fs::read(folder.path().join(name).join(file)));
        assert_eq!(a.unwrap(), b.unwrap());
    }
}
