//! One run of the program on a terminal: time, memory, bytes from the disk, and what the bar said.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::memory::{Memory, Watch};

/// Shares of a phase at which its bar is held to what it says.
const MARKS: [u64; 4] = [10, 25, 50, 75];

/// A finished run.
pub(super) struct Run {
    pub(super) seconds: f64,
    pub(super) memory: Memory,
    /// Predicted peak of anonymous memory.
    pub(super) predicted: Option<u64>,
    pub(super) phases: Vec<Phase>,
    pub(super) etas: Vec<Eta>,
}

/// A phase of the bar.
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) seconds: f64,
}

/// The bar at some moment, and what was left.
pub(super) struct Eta {
    pub(super) percent: u64,
    pub(super) told: f64,
    /// Seconds until the command ended.
    pub(super) left: f64,
}

impl Eta {
    /// How far it was off, as a share of what was left. The bar tells whole seconds.
    pub(super) fn error(&self) -> f64 {
        ((self.told - self.left).abs() - 1.0).max(0.0) / self.left.max(1.0)
    }
}

/// What the bar said, and when.
struct Said {
    at: Duration,
    phase: String,
    percent: u64,
    eta: Option<u64>,
}

impl Run {
    /// Runs the program with these arguments on a terminal of its own.
    pub(super) fn of(binary: &Path, arguments: &[OsString]) -> Result<Self> {
        let words: Vec<String> = std::iter::once(binary.as_os_str())
            .chain(arguments.iter().map(|a| &**a))
            .map(quoted)
            .collect();
        // `script` makes the terminal; `exec`, so that its child is the program itself.
        let line = format!("stty cols 120; exec {}", words.join(" "));
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let began = Instant::now();
        let mut script = command.spawn().context("script, which makes a terminal")?;
        let mut output = script.stdout.take().context("script has an output")?;
        let program = child_of(script.id())?;
        let watch = Watch::start(program);
        let (mut text, mut said, mut buffer) = (Vec::new(), Vec::new(), [0; 1 << 16]);
        loop {
            let read = output.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            let at = began.elapsed();
            said.extend(bars(&String::from_utf8_lossy(&buffer[..read]), at));
            text.extend_from_slice(&buffer[..read]);
        }
        let memory = watch.stop();
        let status = script.wait()?;
        let seconds = began.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&text);
        ensure!(status.success(), "{line} ended with {status}: {text}");
        Ok(Run {
            seconds,
            memory,
            predicted: predicted(&text),
            phases: phases(&said, seconds),
            etas: etas(&said, seconds),
        })
    }

    pub(super) fn json(&self) -> Value {
        let eta = |eta: &Eta| json!({"percent": eta.percent, "told": eta.told, "left": eta.left});
        let phase = |phase: &Phase| json!({"name": phase.name, "seconds": phase.seconds});
        json!({
            "seconds": self.seconds,
            "anonymous_bytes": self.memory.anonymous,
            "mapped_bytes": self.memory.mapped,
            "resident_bytes": self.memory.resident,
            "predicted_bytes": self.predicted,
            "bytes_from_disk": self.memory.from_disk,
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "etas": self.etas.iter().map(eta).collect::<Vec<_>>(),
        })
    }
}

fn quoted(word: &std::ffi::OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

/// Waits until a process has a child and returns its number.
fn child_of(process: u32) -> Result<u32> {
    let list = format!("/proc/{process}/task/{process}/children");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        let children = std::fs::read_to_string(&list).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next().and_then(|c| c.parse().ok()) {
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    anyhow::bail!("script started nothing, or the system does not list children")
}

/// The bars in some output: `scores  [====>   ]  42%  ETA 1m 05s`.
fn bars(text: &str, at: Duration) -> Vec<Said> {
    let bar = |line: &str| {
        let (phase, rest) = line.split_once('[')?;
        let (percent, eta) = rest.split_once(']')?.1.split_once('%')?;
        let percent = percent.trim().parse().ok()?;
        let eta = seconds(eta.split_once("ETA ")?.1);
        Some(Said { at, phase: phase.trim().to_owned(), percent, eta })
    };
    // Without the codes that move the cursor.
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                plain.push('\r');
                rest.by_ref().skip(1).find(char::is_ascii_alphabetic);
            }
            c => plain.push(c),
        }
    }
    plain.split(['\r', '\n']).filter_map(bar).collect()
}

/// A time as the bar tells it: `47s`, `3m 05s`, `2h 07m`.
fn seconds(text: &str) -> Option<u64> {
    let mut all = None;
    for word in text.split_whitespace().take(2) {
        let Some(unit) = word.chars().last() else { break };
        let scale = match unit {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => break,
        };
        let Ok(number) = word[..word.len() - 1].parse::<u64>() else { break };
        all = Some(all.unwrap_or(0) + number * scale);
    }
    all
}

/// The phases of a run; the first is what comes before any bar.
fn phases(said: &[Said], end: f64) -> Vec<Phase> {
    let mut starts = vec![("before any bar".to_owned(), 0.0)];
    for one in said {
        if starts.last().is_none_or(|(name, _)| *name != one.phase) {
            starts.push((one.phase.clone(), one.at.as_secs_f64()));
        }
    }
    let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([end]);
    let all = starts.iter().zip(ends);
    all.map(|((name, start), end)| Phase { name: name.clone(), seconds: end - start }).collect()
}

/// What the bar of the longest phase said at its marks.
fn etas(said: &[Said], end: f64) -> Vec<Eta> {
    let phases = phases(said, end);
    let bars = phases.iter().skip(1);
    let Some(longest) = bars.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) else {
        return Vec::new();
    };
    let of_mark = |percent: u64| {
        let told =
            |one: &&Said| one.phase == longest.name && one.percent >= percent && one.eta.is_some();
        let one = said.iter().find(told)?;
        let (told, left) = (one.eta? as f64, end - one.at.as_secs_f64());
        Some(Eta { percent: one.percent, told, left })
    };
    MARKS.into_iter().filter_map(of_mark).collect()
}

/// The predicted memory of an announcement, in bytes.
fn predicted(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("predicted peak memory ")?;
    let megabytes: f64 = rest.split_once(" MB")?.0.parse().ok()?;
    Some((megabytes * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_read_off_a_terminal() {
        let text = "\u{1b}[2K\rscores           [==>   ]  42%  ETA 1m 05s  \u{1b}[1A\r\
                    copies           [======] 100%  ETA -  ";
        let said = bars(text, Duration::from_secs(3));
        assert_eq!(said.len(), 2);
        assert_eq!(
            (said[0].phase.as_str(), said[0].percent, said[0].eta),
            ("scores", 42, Some(65))
        );
        assert_eq!((said[1].phase.as_str(), said[1].percent, said[1].eta), ("copies", 100, None));
        assert_eq!(
            [seconds("47s"), seconds("2h 07m  x"), seconds("-")],
            [Some(47), Some(7620), None]
        );
        assert_eq!(predicted("; predicted peak memory 12 MB\r"), Some(12_000_000));
    }

    #[test]
    fn an_eta_is_held_to_the_end() {
        let said = |at, percent, eta| Said {
            at: Duration::from_secs(at),
            phase: "scores".into(),
            percent,
            eta: Some(eta),
        };
        let all = [said(1, 1, 50), said(10, 11, 90), said(30, 30, 40), said(60, 60, 41)];
        let etas = etas(&all, 100.0);
        let seen: Vec<(u64, f64)> = etas.iter().map(|eta| (eta.percent, eta.left)).collect();
        assert_eq!(seen, [(11, 90.0), (30, 70.0), (60, 40.0)]);
        assert_eq!(
            etas.iter().map(Eta::error).map(|e| (100.0 * e) as u64).collect::<Vec<_>>(),
            [0, 41, 0]
        );
    }
}
