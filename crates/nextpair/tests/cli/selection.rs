//! Picks, scores and reasons of a selection, for every flag that affects them.

use std::path::Path;

use nextpair::data::{Amount, Matrix, Side};
use nextpair::engine::{
    BagOfWords, BuiltIn, CoreSet, Coverage, Draws, Guards, HardNegative, Hybrid, Metric, Problem,
    Scope, Settings, Usability, VOptimal, Weight, bag_of_words, reference,
};
use nextpair::models::{Config, Training};
use nextpair::scenario::{Annotator, Arm, Experiment, ExperimentKeys, RehearsalSettings};
use nextpair::{Files, Paths, Selection};
use serde_json::Value;

use crate::world::{Asked, Vectors, World, files};

const SAMPLE: [usize; 9] = [17, 3, 8, 0, 21, 12, 5, 23, 14];
const RIVALS: [usize; 7] = [1, 20, 3, 9, 14, 2, 11];

/// Returns the text of a pair. Pair 4 has the text of pair 5, whose image is in another group.
fn text(pair: usize) -> usize {
    if pair == 4 { 5 } else { pair }
}

/// Flags, and their meaning for the reference.
fn cases() -> Vec<(&'static str, Asked)> {
    let plain = Settings::default;
    let settings = |settings| Asked { settings, ..Asked::usual() };
    let usual = HardNegative::default;
    let hits = |hits| Asked { hits, ..Asked::usual() };
    let guarded = |guards| hits(HardNegative { guards, ..usual() });
    let given = |anchors: &[usize], rivals: &[usize]| {
        let scope = Some(Scope { anchors: anchors.to_vec(), rivals: rivals.to_vec() });
        settings(Settings { scope, ..plain() })
    };
    let all: Vec<usize> = (0..24).collect();
    let groups: Vec<u32> = (0..24).map(|pair| pair % 4).collect();
    vec![
        ("", settings(plain())),
        ("--scope full --similarity cosine --weight surplus --top-k 1", settings(plain())),
        ("--similarity dot", Asked { metric: Metric::Dot, ..Asked::usual() }),
        ("--weight count", hits(HardNegative { weight: Weight::Count, ..usual() })),
        ("--top-k 4", hits(HardNegative { top_k: 4, ..usual() })),
        ("--groups groups.txt", settings(Settings { groups: Some(groups.clone()), ..plain() })),
        (
            "--groups groups.npy --top-k 3",
            Asked {
                hits: HardNegative { top_k: 3, ..usual() },
                ..settings(Settings { groups: Some(groups), ..plain() })
            },
        ),
        (
            "--groups=groups.txt --groups=texts.txt --top-k 2",
            Asked {
                hits: HardNegative { top_k: 2, ..usual() },
                ..settings(Settings {
                    groups: Some(reference::groups(24, |a, b| {
                        a % 4 == b % 4 || text(a) == text(b)
                    })),
                    ..plain()
                })
            },
        ),
        ("--max-score 0.7", guarded(Guards { max_score: Some(0.7), ..Guards::default() })),
        (
            "--absolute-margin -0.05",
            guarded(Guards { absolute_margin: Some(-0.05), ..Guards::default() }),
        ),
        (
            "--relative-margin 0.1 --max-score 0.9",
            guarded(Guards {
                relative_margin: Some(0.1),
                max_score: Some(0.9),
                ..Guards::default()
            }),
        ),
        (
            "--scope mini --sample 10 --seed 5",
            Asked {
                hits: HardNegative { sample: Some(Amount::Count(10)), ..usual() },
                ..settings(Settings { seed: 5, ..plain() })
            },
        ),
        ("--sample-indices sample.txt", given(&SAMPLE, &SAMPLE)),
        ("--rival-indices rivals.npy", given(&all, &RIVALS)),
        (
            "--scope mini --sample-indices sample.txt --rival-indices rivals.npy",
            given(&SAMPLE, &RIVALS),
        ),
        ("--explain 0", settings(Settings { explain: 0, ..plain() })),
        (
            "--explain 1000 --budget 40",
            Asked { budget: 40, ..settings(Settings { explain: 1000, ..plain() }) },
        ),
    ]
}

/// Returns a world with the small files that `cases` names.
fn world() -> World {
    let world = World::small();
    world.write_lines("groups.txt", (0..24).map(|pair| format!("image {}", pair % 4)));
    let labels: Vec<i64> = (0..24).map(|pair| pair % 4 - 4).collect();
    world.write("groups.npy", &files::npy_integers(&labels));
    world.write_lines("texts.txt", (0..24).map(text));
    world.write_lines("sample.txt", SAMPLE);
    world.write("rivals.npy", &files::npy_integers(&RIVALS.map(|index| index as i64)));
    world
}

/// Strategies whose whole output has a plain version. The engine's own tests hold the others to one.
fn referenced() -> [BuiltIn; 4] {
    [
        HardNegative::default().into(),
        CoreSet::default().into(),
        Coverage::default().into(),
        Hybrid::default().into(),
    ]
}

/// Whether flags are of all strategies or parameters of this one.
fn takes(mut strategy: BuiltIn, flags: &str) -> bool {
    let has = |one: &mut BuiltIn, flag: &str| one.parameters().iter().any(|own| own.flag() == flag);
    flags.split("--").skip(1).map(|flag| flag.split([' ', '=']).next().unwrap()).all(|flag| {
        has(&mut strategy, flag) || !BuiltIn::all().any(|mut other| has(&mut other, flag))
    })
}

/// The picks of the last selection but for their neighbours, of which the reference knows nothing.
fn picks(world: &World) -> Vec<Value> {
    let mut picks = world.picks("out/picks.jsonl");
    for pick in &mut picks {
        pick.as_object_mut().unwrap().remove("near");
    }
    picks
}

#[test]
fn picks_scores_and_reasons_are_those_of_the_reference() {
    let world = world();
    for text_pool in [false, true] {
        for strategy in referenced() {
            for (flags, asked) in cases().into_iter().filter(|(flags, _)| takes(strategy, flags)) {
                let asked = Asked { strategy, text_pool, ..asked };
                let side = if text_pool { "text" } else { "image" };
                let flags = format!("--strategy {strategy} --pool-side {side} {flags}");
                world.select(&flags);
                let (found, expected) = (picks(&world), world.expected(&asked));
                assert_eq!(found, expected, "{flags}");
            }
        }
    }
}

#[test]
fn guards_and_scopes_change_the_answer() {
    // Every flag must change the result here, or the cases above prove little.
    let world = world();
    let usual = world.expected(&Asked::usual());
    for (flags, asked) in cases().into_iter().skip(2) {
        assert_ne!(world.expected(&asked), usual, "{flags}");
    }
}

#[test]
fn fields_come_in_the_stated_order() {
    let world = World::small();
    world.select("--explain 1");
    let text = String::from_utf8(world.read("out/picks.jsonl")).unwrap();
    let line = text.lines().next().unwrap();
    let places: Vec<usize> = [
        "{\"rank\":1,\"index\":",
        ",\"id\":\"",
        ",\"score\":",
        ",\"hits\":",
        ",\"why\":[{\"anchor\":",
        ",\"anchor_id\":\"",
        ",\"similarity\":",
        ",\"threshold\":",
        ",\"surplus\":",
        "}]}",
    ]
    .iter()
    .map(|part| line.find(part).unwrap_or_else(|| panic!("no {part} in {line}")))
    .collect();
    assert!(places.is_sorted(), "{line}");
    assert!(text.ends_with("}\n"), "{text}");
}

#[test]
fn threads_do_not_change_a_byte() {
    // Larger than one block of work.
    let world = World::new(2, 300, 700, 16);
    // With fewer dimensions than the vectors have, principal axes are computed.
    let axes = (VOptimal::default().into(), "--dimensions 8");
    for (strategy, flags) in BuiltIn::all().map(|strategy| (strategy, "")).chain([axes]) {
        let outputs: Vec<Vec<u8>> = ["1", "2", "5"]
            .iter()
            .map(|threads| {
                let threads = format!("--budget 60 --threads {threads}");
                world.select(&format!("--strategy {strategy} {threads} {flags}"));
                world.read("out/picks.jsonl")
            })
            .collect();
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "{strategy} {flags}");
        if referenced().contains(&strategy) {
            let asked = Asked { strategy, budget: 60, ..Asked::usual() };
            assert_eq!(picks(&world), world.expected(&asked), "{strategy}");
        }
    }
}

#[test]
fn draws_follow_the_seed() {
    let world = World::small();
    for flags in ["--sample 8", "--strategy random", "--strategy coverage --sample 8"] {
        let picks = |seed: u32| {
            world.select(&format!("{flags} --seed {seed}"));
            world.picks("out/picks.jsonl")
        };
        assert_eq!(picks(3), picks(3), "{flags}");
        assert_ne!(picks(3), picks(4), "{flags}");
    }
    world.select("--seed 0 --strategy random");
    let seeded = world.read("out/picks.jsonl");
    world.select("--strategy random");
    assert_eq!(world.read("out/picks.jsonl"), seeded, "the seed is 0 unless given");
}

#[test]
fn random_picks_are_distinct_and_have_no_reasons() {
    let world = World::small();
    world.select("--strategy random --budget 40");
    let picks = world.picks("out/picks.jsonl");
    let mut indices: Vec<u64> = picks.iter().map(|pick| pick["index"].as_u64().unwrap()).collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..40).collect::<Vec<_>>());
    assert!(picks.iter().all(|pick| pick["hits"].is_null() && pick["why"] == Value::Array(vec![])));
    let score = |pick: &Value| pick["score"].as_f64().unwrap();
    assert!(picks.windows(2).all(|pair| score(&pair[0]) >= score(&pair[1])));
}

#[test]
fn ids_stand_beside_the_indices() {
    let world = World::small();
    world.write_lines("ids.txt", (0..40).map(|item| format!("pool \"{item}\", é")));
    world.write_lines("paired.txt", (0..24).map(|pair| format!("pair/{pair}.jpg")));
    for strategy in ["hard-negative", "coverage", "hybrid"] {
        world.select(&format!("--strategy {strategy} --ids ids.txt --paired-ids paired.txt"));
        let picks = world.picks("out/picks.jsonl");
        for pick in &picks {
            assert_eq!(pick["id"], format!("pool \"{}\", é", pick["index"]));
            for why in pick["why"].as_array().unwrap() {
                assert_eq!(why["anchor_id"], format!("pair/{}.jpg", why["anchor"]));
            }
        }
        assert!(picks.iter().any(|pick| !pick["why"].as_array().unwrap().is_empty()));
    }
}

#[test]
fn strategies_without_hits_need_no_other_side() {
    let world = World::small();
    for strategy in ["random", "core-set"] {
        world.select(&format!("--strategy {strategy}"));
        let both = world.read("out/picks.jsonl");
        let run = world.run(&format!(
            "select --paired-images images.npy --pool pool.npy --pool-side image --budget 9 \
             --strategy {strategy} --out out/picks.jsonl"
        ));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(world.read("out/picks.jsonl"), both, "{strategy}");
    }
}

#[test]
fn every_default_strategy_is_that_of_the_engine() {
    let world = World::small();
    let usual = BuiltIn::default();
    let files = "--paired-images images.npy --pool pool.npy --pool-side image --budget 9";
    let run = world.run(&format!("select {files} --out picks.jsonl"));
    assert!(run.stderr.contains(&format!("picked      9 of 40 by {usual}\n")), "{}", run.stderr);
    let paths = Paths {
        pool_side: Side::Image,
        pool: world.path("pool.npy"),
        paired: Some(world.path("images.npy")),
        anchors: None,
        pool_ids: None,
        pair_ids: None,
    };
    let selection = Selection::new(Files::open(paths).unwrap(), 9);
    assert_eq!(selection.strategy, usual);
    let picks = world.picks("picks.jsonl");
    let indices = selection.select(&()).unwrap().indices();
    assert!(picks.iter().map(|pick| &pick["index"]).eq(&indices), "{picks:?} {indices:?}");

    let heads = || Config::named("heads").unwrap();
    let tried = |annotator| {
        let dataset = Some("ds".into());
        let keys = ExperimentKeys { dataset, annotator, ..ExperimentKeys::default() };
        Experiment::resolve(keys, heads(), Training::default()).unwrap().strategies
    };
    assert_eq!(tried(None), [Arm::random(1), Arm::new(usual)]);
    assert_eq!(tried(Some(Annotator::Human)), [Arm::new(usual)]);
    assert!(RehearsalSettings::usual_strategies(&heads()).contains(&Arm::new(usual)));

    for (command, says) in
        [("select", format!("[default: {usual}]")), ("run", format!("[default: random,{usual}]"))]
    {
        let help = world.run(&format!("{command} --help")).stdout;
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(&says), "{help}");
    }
    let says = format!("--strategy is missing: {usual}, the default of select, cannot be split");
    world.refused(&format!("score {files} --shard 0/2 --out out/part"), &[&says]);
}

#[test]
fn the_papers_strategy_says_where_it_loses() {
    let world = World::small();
    let says = "note        with heads on frozen encoders a hard negative was worth 0.23 to 0.83";
    assert!(world.select("").stderr.contains(says));
    assert!(!world.select("--strategy v-optimal").stderr.contains(says));
    for page in ["docs/when-it-pays.md", "docs/reference/strategies.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("0.23") && text.contains("0.83"), "{page}");
    }
}

#[test]
fn core_set_takes_several_vectors_per_item() {
    let world = World::small();
    let mut draws = Draws::new(7);
    let (locals, dim) = (8, 4);
    let regions = |vectors: &Vectors| Matrix::from_f64(dim, &vectors.values).with_locals(locals);
    let paired = Vectors::drawn(&mut draws, 20 * locals, dim);
    let pool = Vectors::drawn(&mut draws, 40 * locals, dim);
    world.write("regions.npy", &files::npy_locals(&paired, locals));
    world.write("pool_regions.npy", &files::npy_locals(&pool, locals));
    let rows = |matrix: &Matrix| -> Vec<Vec<f64>> {
        let read = |row| {
            let mut values = vec![0.0; matrix.dim()];
            matrix.read_f64(row, &mut values);
            values
        };
        (0..matrix.rows()).map(read).collect()
    };
    let means = |vectors: &Vectors| -> Vec<Vec<f64>> {
        let mean = |regions: &[Vec<f64>]| {
            let sum = |k: usize| regions.iter().map(|region| region[k]).sum::<f64>();
            (0..dim).map(|k| sum(k) / locals as f64).collect()
        };
        vectors.rows().chunks(locals).map(mean).collect()
    };
    for features in ["mean", "bow"] {
        let run = world.run(&format!(
            "select --paired-images regions.npy --pool pool_regions.npy --pool-side image \
             --strategy core-set --features {features} --seed 4 --budget 15 --out out/picks.jsonl"
        ));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let (paired, pool) = match features {
            "mean" => (means(&paired), means(&pool)),
            _ => {
                let words = BagOfWords { seed: 4, ..BagOfWords::default() };
                let (paired, pool) =
                    bag_of_words(&regions(&paired), &regions(&pool), words, &()).unwrap();
                (rows(&paired), rows(&pool))
            }
        };
        let expected = reference::k_center(&paired, &pool, 15);
        let found: Vec<(usize, f64)> = world
            .picks("out/picks.jsonl")
            .iter()
            .map(|pick| (pick["index"].as_u64().unwrap() as usize, pick["score"].as_f64().unwrap()))
            .collect();
        assert_eq!(found, expected, "{features}");
    }
}

#[test]
fn what_annotators_skipped_is_not_picked_again() {
    let world = World::small();
    world.write_lines("ids.txt", (0..40).map(|item| format!("i{item}")));
    let skip = |item: usize| format!("{{\"id\":\"i{item}\",\"skip\":\"blurred\"}}");
    world.write_lines("answers.jsonl", (0..12).map(skip).chain([skip(99)]));
    world.select_refused("--usable answers.jsonl", &["the pool items have no ids; give --ids"]);
    for strategy in ["random", "hard-negative", "herding", "v-optimal"] {
        let run =
            world.select(&format!("--strategy {strategy} --ids ids.txt --usable answers.jsonl"));
        assert!(run.stderr.contains("that people may refuse"), "{}", run.stderr);
        for pick in world.picks("out/picks.jsonl") {
            let index = pick["index"].as_u64().unwrap();
            assert!(index >= 12, "{strategy}: {index}");
            assert_eq!(pick["id"], format!("i{index}"));
        }
    }
    let run = world.ask("score", "--ids ids.txt --usable answers.jsonl --shard 0/2 --out out/p");
    assert!(run.code == Some(2) && run.stderr.contains("not from a shard"), "{}", run.stderr);
}

#[test]
fn v_optimal_weighs_items_by_what_annotators_skipped() {
    let world = World::small();
    world.write_lines("ids.txt", (0..40).map(|item| format!("i{item}")));
    world.write_lines(
        "answers.jsonl",
        (0..12).map(|item| format!("{{\"id\":\"i{item}\",\"skip\":\"blurred\"}}")),
    );
    world.select("--strategy v-optimal --ids ids.txt --usable answers.jsonl");
    let matrix = |vectors: &Vectors| Matrix::from_f64(vectors.dim, &vectors.values);
    let (paired, pool) = (matrix(&world.images), matrix(&world.pool));
    let (refused, left) = (pool.slice(0..12), pool.slice(12..40));
    let learned = Usability::learn(&paired, Some(&refused), &left, 0, &()).unwrap().unwrap();
    let problem = Problem::of_pool(28).features(left.clone(), paired.clone());
    let problem = problem.usable(learned.of(&left).unwrap()).build().unwrap();
    let expected = problem.select(&VOptimal::default(), 9, &()).unwrap();
    let number = |pick: &Value, key: &str| pick[key].as_f64().unwrap();
    for (pick, expected) in world.picks("out/picks.jsonl").iter().zip(&expected.picks) {
        assert_eq!(number(pick, "index"), f64::from(expected.index + 12));
        assert_eq!(number(pick, "score"), expected.score);
    }
}

#[test]
fn queries_change_what_is_covered() {
    let world = World::small();
    world.write("asked.npy", &files::npy(&world.texts.first(3), files::Numbers::F32));
    for strategy in ["herding", "novelty", "v-optimal"] {
        world.select(&format!("--strategy {strategy}"));
        let before = world.read("out/picks.jsonl");
        let run = world.select(&format!("--strategy {strategy} --queries asked.npy"));
        assert!(run.stderr.contains("at the expense of other queries"), "{}", run.stderr);
        assert_ne!(world.read("out/picks.jsonl"), before, "{strategy}");
    }
}
