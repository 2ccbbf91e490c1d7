//! Logs for other tools, read back by a reader of our own: frames with their sums, messages, tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scenario::Lab;
use crate::world::json_lines;

/// A number in an event file.
#[derive(Debug)]
struct Scalar {
    tag: String,
    step: u64,
    value: f32,
    time: f64,
}

/// Reads the event file in a folder, and checks every sum.
fn scalars(folder: &Path) -> Vec<Scalar> {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(files[0].to_str().unwrap().contains("/events.out.tfevents."), "{files:?}");
    let bytes = fs::read(&files[0]).unwrap();
    let (mut rest, mut found, mut first) = (&bytes[..], Vec::new(), true);
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        check_sum(&rest[..8], &rest[8..12]);
        let payload = &rest[12..12 + length];
        check_sum(payload, &rest[12 + length..16 + length]);
        rest = &rest[16 + length..];
        let event = message(payload);
        if first {
            assert_eq!(event[&3], [b"brain.Event:2".to_vec()]);
            first = false;
            continue;
        }
        let time = f64::from_le_bytes(event[&1][0][..].try_into().unwrap());
        let step = u64::from_le_bytes(event[&2][0][..].try_into().unwrap());
        for value in &message(&event[&5][0])[&1] {
            let value = message(value);
            let tag = String::from_utf8(value[&1][0].clone()).unwrap();
            let value = f32::from_le_bytes(value[&2][0][..].try_into().unwrap());
            found.push(Scalar { tag, step, value, time });
        }
    }
    found
}

/// Checks a masked CRC-32C, by long division of the message as a polynomial.
fn check_sum(bytes: &[u8], sum: &[u8]) {
    let mut remainder = !0u32;
    let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
    for bit in bits {
        let out = (remainder ^ bit) & 1;
        remainder >>= 1;
        if out == 1 {
            remainder ^= 0x1edc_6f41u32.reverse_bits();
        }
    }
    let plain = !remainder;
    let masked = plain.rotate_right(15).wrapping_add(0xa282_ead8);
    assert_eq!(masked.to_le_bytes(), sum);
}

/// Splits a message of Protocol Buffers into its fields. Numbers become eight bytes.
fn message(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Vec<u8>>> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut fields: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                let number = varint(&mut bytes).to_le_bytes().to_vec();
                fields.entry(key >> 3).or_default().push(number);
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        fields.entry(key >> 3).or_default().push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    fields
}

/// Returns the values of a tag by step, each step once.
fn series(scalars: &[Scalar], tag: &str) -> BTreeMap<u64, f32> {
    let mut found = BTreeMap::new();
    for scalar in scalars.iter().filter(|scalar| scalar.tag == tag) {
        let twice = found.insert(scalar.step, scalar.value);
        assert!(twice.is_none(), "{scalar:?} is there twice");
    }
    found
}

/// Reads a table: rows by column.
fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let heads: Vec<String> = lines.next().unwrap().collect();
    lines.map(|line| heads.iter().cloned().zip(line).collect()).collect()
}

const RUN: &str = "run e.toml --seeds 0,1 --validate-last 1 --log tensorboard --log csv";

#[test]
fn an_experiment_is_logged_by_epoch_and_round() {
    let lab = Lab::new(80);
    lab.succeeds(&format!("{RUN} --epochs 3 --out run"));
    let rounds = lab.rounds("run");
    let of = |seed: u64, strategy: &str| -> Vec<&Value> {
        let own = |round: &&Value| {
            let shared = round["round"] == 0;
            round["seed"] == seed && (shared || round["strategy"] == strategy)
        };
        rounds.iter().filter(own).collect()
    };
    let rows = table(&lab.read("run/log.csv"));
    assert_eq!(rows.len(), 2 * (1 + 2 * 2) * 3, "an epoch is a row");
    for (seed, strategy) in
        [(0, "random"), (1, "random"), (0, "hard-negative"), (1, "hard-negative")]
    {
        let found = scalars(&lab.path(&format!("run/tensorboard/{strategy}-seed{seed}")));
        assert!(found.windows(2).all(|two| two[0].time <= two[1].time), "time goes on");
        assert!(found.iter().all(|scalar| scalar.time > 1.7e9));
        // Three rounds of three epochs, of which the last is evaluated on dev.
        let losses = series(&found, "loss");
        assert_eq!(losses.keys().copied().collect::<Vec<_>>(), (1..=9).collect::<Vec<u64>>());
        assert_eq!(series(&found, "learning_rate").len(), 9);
        assert_eq!(series(&found, "dev/rsum").keys().copied().collect::<Vec<_>>(), [3, 6, 9]);
        let mut epochs = json_lines(&lab.read(&format!("run/seed-{seed}/round-0/log.jsonl")));
        for round in 1..=2 {
            let log = format!("run/seed-{seed}/{strategy}/round-{round}/log.jsonl");
            epochs.extend(json_lines(&lab.read(&log)));
        }
        for (epoch, loss) in epochs.iter().zip(losses.values()) {
            assert_eq!(epoch["loss"].as_f64().unwrap() as f32, *loss);
        }
        // Tests by the number of paired items.
        for (tag, side, key) in [
            ("test/text_r1", "text", "r1"),
            ("test/image_r5", "image", "r5"),
            ("test/text_r10", "text", "r10"),
            ("test/image_mean_log_rank", "image", "mean_log_rank"),
        ] {
            let expected: BTreeMap<u64, f32> = (of(seed, strategy).iter())
                .map(|round| {
                    let value = round["test"][0][side][key].as_f64().unwrap();
                    (round["paired"].as_u64().unwrap(), value as f32)
                })
                .collect();
            assert_eq!(series(&found, tag), expected, "{tag}");
        }
        assert_eq!(series(&found, "test/rsum").len(), 3);
        let tested: Vec<_> = (rows.iter())
            .filter(|row| row["seed"] == seed.to_string() && !row["test/rsum"].is_empty())
            .filter(|row| row["strategy"] == strategy || row["round"] == "0")
            .collect();
        for (row, round) in tested.iter().zip(of(seed, strategy)) {
            assert_eq!(row["paired"], round["paired"].to_string());
            assert_eq!(row["test/rsum"].parse::<f64>().ok(), round["test"][0]["rsum"].as_f64());
        }
        assert_eq!(tested.len(), 3);
    }
    // What was made without logs has them after a resume that has nothing to do.
    let whole = lab.read("run/log.csv");
    fs::remove_file(lab.path("run/log.csv")).unwrap();
    lab.succeeds("run run --resume --log csv");
    assert_eq!(lab.read("run/log.csv"), whole);
}

#[test]
fn killed_and_resumed_every_step_is_logged_once() {
    let lab = Lab::new(80);
    let words = format!("{RUN} --jobs 1 --strategies random --epochs 12");
    lab.succeeds(&format!("{words} --out whole"));
    let tags = |run: &str| -> BTreeSet<(String, u64)> {
        let found = scalars(&lab.path(&format!("{run}/tensorboard/random-seed1")));
        let tags: BTreeSet<_> = found.iter().map(|one| (one.tag.clone(), one.step)).collect();
        assert_eq!(tags.len(), found.len(), "nothing is there twice");
        tags
    };
    let mut kills = 0;
    loop {
        let mut child = lab.start(&format!("{words} --out killed --resume"));
        let until = Instant::now() + Duration::from_millis(60 + 90 * kills);
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 0);
    assert_eq!(lab.read("killed/log.csv"), lab.read("whole/log.csv"));
    assert_eq!(tags("killed"), tags("whole"));
}

#[test]
fn a_training_is_logged_by_epoch() {
    let lab = Lab::new(60);
    let train = "train ds --model vse++ --dim 8 --word-dim 8 --epochs 4 --validate-last 2";
    lab.succeeds(&format!("{train} --out model --log tensorboard,csv"));
    let found = scalars(&lab.path("model/tensorboard"));
    assert_eq!(series(&found, "loss").keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(series(&found, "dev/image_r1").keys().copied().collect::<Vec<_>>(), [3, 4]);
    let rows = table(&lab.read("model/log.csv"));
    let losses: Vec<f64> = rows.iter().map(|row| row["loss"].parse().unwrap()).collect();
    let logged = json_lines(&lab.read("model/log.jsonl"));
    let logged: Vec<f64> = logged.iter().map(|epoch| epoch["loss"].as_f64().unwrap()).collect();
    assert_eq!(losses, logged);
    assert!(rows.iter().all(|row| row["round"].is_empty() && row["seed"] == "0"));
    // Again, and nothing is there twice.
    lab.succeeds("train ds --resume --out model --log tensorboard,csv");
    assert_eq!(series(&scalars(&lab.path("model/tensorboard")), "loss").len(), 4);
    lab.refused(&format!("{train} --out other --log wandb"), "wandb");
    assert!(!lab.path("other").exists());
}
