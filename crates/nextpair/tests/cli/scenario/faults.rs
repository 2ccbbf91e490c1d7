//! Damaged, edited and missing files, and full disks: a clear error, and no loss of results.

use std::fs;
use std::process::Command;

use super::{Lab, Results};

/// A run of one round to damage, and the expected results of two rounds.
struct Broken {
    lab: Lab,
    expected: Results,
}

const RESUME: &str = "run e.toml --resume --out run";

impl Broken {
    fn new() -> Self {
        let lab = Lab::new(80);
        lab.succeeds("run e.toml --out whole");
        lab.succeeds("run e.toml --rounds 1 --jobs 1 --out good");
        let expected = lab.results("whole");
        Broken { lab, expected }
    }

    /// Restores the undamaged run.
    fn mend(&self) {
        let _ = fs::remove_dir_all(self.lab.path("run"));
        self.lab.copy("good", "run");
    }

    /// Asserts that the run is refused and left untouched with the edited file, and continues with
    /// the original one.
    fn refused(&self, file: &str, edit: impl Fn(&[u8]) -> Vec<u8>, says: &str) {
        let path = self.lab.path(file);
        let good = fs::read(&path).unwrap();
        let bad = edit(&good);
        assert_ne!(good, bad, "{file}");
        fs::write(&path, &bad).unwrap();
        self.lab.refused(RESUME, says);
        assert!(fs::read(&path).unwrap() == bad, "{file} was touched");
        fs::write(&path, &good).unwrap();
        self.goes_on();
    }

    fn goes_on(&self) {
        self.lab.succeeds(RESUME);
        self.lab.assert_same("run", &self.expected);
        self.mend();
    }
}

fn without_line(text: &[u8], number: usize) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n').enumerate();
    lines.filter(|(at, _)| *at != number).flat_map(|(_, line)| line).copied().collect()
}

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(text.to_vec()).unwrap().replacen(from, to, 1).into_bytes()
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

#[test]
fn rounds_that_were_edited() {
    let broken = Broken::new();
    broken.mend();
    let rounds = "run/rounds.jsonl";
    let edited = |text: &[u8]| replaced(text, "\"pairs\":25", "\"pairs\":26");
    broken.refused(rounds, edited, "rounds.jsonl:2: this line or one before it was changed");
    broken.refused(rounds, |text| without_line(text, 1), "rounds.jsonl:2: this line or one");
    broken.refused(rounds, |text| without_line(text, 0), "rounds.jsonl:1: this line or one");
    broken.refused(rounds, |text| [b"x\n", text].concat(), "rounds.jsonl:1: not a round");
    broken.refused(rounds, |text| [text, b"\xff\n"].concat(), "rounds.jsonl: not UTF-8");
    // The advice of the error works: deleted lines of rounds are recovered.
    let text = fs::read(broken.lab.path(rounds)).unwrap();
    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    for kept in 0..3 {
        fs::write(broken.lab.path(rounds), lines[..kept].concat()).unwrap();
        broken.goes_on();
    }
    // A line without its newline was never acknowledged.
    for length in [text.len() - 1, text.len() - 40] {
        fs::write(broken.lab.path(rounds), &text[..length]).unwrap();
        broken.goes_on();
    }
}

#[test]
fn weights_that_were_damaged_or_lost() {
    let broken = Broken::new();
    broken.mend();
    let folder = "run/seed-0/random/round-1";
    let weights = format!("{folder}/model.safetensors");
    let says =
        "random/round-1/model.safetensors: not the weights that seed 0, random, round 1 ended";
    broken.refused(&weights, flipped, says);
    broken.refused(&weights, |bytes| bytes[..bytes.len() / 2].to_vec(), says);
    broken.refused(
        &format!("{folder}/pairs.jsonl"),
        |text| without_line(text, 3),
        "round-1/pairs.jsonl: was changed after the model was made",
    );
    // The advice of the error works, and so does deleting the weights.
    fs::remove_dir_all(broken.lab.path(folder)).unwrap();
    broken.goes_on();
    fs::remove_file(broken.lab.path(&weights)).unwrap();
    broken.goes_on();
}

#[test]
fn the_shared_weights_are_trained_again_once() {
    let broken = Broken::new();
    for lost in ["run/seed-0/round-0/model.safetensors", "run/seed-0/round-0"] {
        broken.mend();
        let lab = &broken.lab;
        let lost = lab.path(lost);
        let remove = if lost.is_dir() { fs::remove_dir_all(lost) } else { fs::remove_file(lost) };
        remove.unwrap();
        for strategy in ["random", "hard-negative"] {
            fs::remove_dir_all(lab.path(&format!("run/seed-0/{strategy}"))).unwrap();
        }
        // Both strategies need the weights at the same time.
        lab.succeeds(&format!("{RESUME} --threads 2 --jobs 2"));
        lab.assert_same("run", &broken.expected);
    }
}

#[test]
fn picks_manifest_and_data_that_were_changed() {
    let broken = Broken::new();
    broken.mend();
    let picks = "run/seed-0/hard-negative/picks-1.jsonl";
    let says = "picks-1.jsonl: not what seed 0, hard-negative, round 1 was finished with";
    broken.refused(picks, |text| without_line(text, 2), says);
    let facts = "run/seed-0/hard-negative/picks-1.json";
    broken.refused(facts, |_| b"{}".to_vec(), "picks-1.json: not the facts of a selection");
    broken.refused("run/experiment.json", |text| text[..30].to_vec(), "experiment.json: ");
    let newer =
        |text: &[u8]| replaced(text, "\"nextpair_scenario\": 1", "\"nextpair_scenario\": 2");
    broken.refused("run/experiment.json", newer, "experiment.json: format 2; this version reads 1");
    let longer = |text: &[u8]| replaced(text, "epochs = ", "epochs = 1");
    let says = "experiment.toml: was changed after the experiment was made";
    broken.refused("run/experiment.toml", longer, says);
    let unknown = |text: &[u8]| replaced(text, "rounds", "laps");
    broken.refused("run/experiment.toml", unknown, "experiment.toml:5: unknown field `laps`");
    let words = |text: &[u8]| replaced(text, "\"star\"", "\"comet\"");
    let changed = "vocabulary.json: was changed after the experiment was made";
    broken.refused("run/vocabulary.json", words, changed);
    let caption = |text: &[u8]| replaced(text, "star", "stars");
    broken.refused(
        "ds/items.jsonl",
        caption,
        "ds: other items than those the experiment was made with",
    );
    let says = "damaged, or changed since it became features of regions";
    let header = 128;
    let first_number = |bytes: &[u8]| [&flipped(&bytes[..=header]), &bytes[header + 1..]].concat();
    broken.refused("ds/features/regions.image.npy", first_number, says);
}

#[test]
fn places_that_cannot_be_written() {
    let broken = Broken::new();
    broken.mend();
    let lab = &broken.lab;
    lab.write("run/seed-0/random/round-2", "a file where a folder belongs");
    lab.refused(RESUME, "seed-0/random/round-2: ");
    fs::remove_file(lab.path("run/seed-0/random/round-2")).unwrap();
    broken.goes_on();
    lab.write("file", "");
    lab.refused("run e.toml --out file/run", "file/run: ");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |mode| fs::set_permissions(lab.path("run"), PermissionsExt::from_mode(mode));
        let lock = lab.path("run/.lock");
        fs::remove_file(&lock).unwrap();
        mode(0o555).unwrap();
        // Root may write anywhere.
        if fs::write(&lock, "").is_err() {
            lab.refused(RESUME, "run/.lock: ");
        }
        mode(0o755).unwrap();
        broken.goes_on();
    }
}

/// A limit on file sizes stands in for a full disk: the system refuses the bytes beyond it in the
/// middle of a write.
#[cfg(unix)]
#[test]
fn a_disk_that_is_full() {
    let broken = Broken::new();
    broken.mend();
    let lab = &broken.lab;
    let limited = |kilobytes: usize| {
        let program = env!("CARGO_BIN_EXE_nextpair");
        let line = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec {program} {RESUME}");
        let ended = Command::new("bash").args(["-c", &line]).current_dir(lab.path("")).output();
        let ended = ended.unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let mut refusals = 0;
    for kilobytes in [0, 1, 2, 4, 8] {
        let (code, said) = limited(kilobytes);
        if code != Some(0) {
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains("error: ") && !said.contains("panicked"), "{said}");
            // In the folder of the run, or in that of temporary files.
            let (place, _) = said.split_once(": File too large").expect("what the system said");
            assert!(place.contains("error: run/") || place.contains("error: /"), "{said}");
            refusals += 1;
        }
    }
    assert!(refusals >= 3, "the limits were too wide");
    broken.goes_on();
}
