//! Time and memory, and how to reproduce the results.

use std::fmt::Write;

use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Evidence, Study};

use super::super::page::escaped;
use super::super::table;
use super::super::words::duration;
use super::Sections;

/// Overhead above this percentage is too much.
const OVERHEAD: f64 = 5.0;

impl Sections {
    pub(super) fn time(&mut self, evidence: &Evidence) {
        let Some(overhead) = evidence.time.overhead else { return };
        let selecting = evidence.arms.iter().filter_map(|arm| {
            let seconds = arm.selection_seconds?;
            Some(format!("{} {}", arm.strategy, duration(seconds.mean)))
        });
        let selecting = selecting.collect::<Vec<_>>().join(", ");
        let judged = if overhead < OVERHEAD { "" } else { ", more than the 5 % that it should be" };
        let html = format!(
            "{}<p>Everything outside training, selection and evaluation took {overhead:.1} % of \
             {}{judged}. Selecting a batch took, on average: {}.</p><p class=\"note\">Memory is the \
             peak of the whole process while the phase ran, whatever else it held meanwhile; not \
             what the phase alone needs.</p>",
            table::time(evidence),
            duration(evidence.time.seconds),
            escaped(&selecting)
        );
        self.section("time", "Time and memory", &html);
    }

    pub(super) fn making(&mut self, evidence: &Evidence, studies: &[Study]) {
        let mut html = String::new();
        for (at, study) in studies.iter().enumerate() {
            let machine = &study.manifest.machine;
            let facts = [
                ("Experiment", study.folder.path().display().to_string()),
                ("Version", makers(study)),
                (
                    "Machine",
                    format!(
                        "{}, {} threads, {}",
                        machine.cpu,
                        grouped(machine.threads),
                        machine.system
                    ),
                ),
                ("Rounds", format!("{} finished", grouped(study.rounds.len()))),
            ];
            let facts: String = facts
                .iter()
                .map(|(what, fact)| format!("<div><dt>{what}</dt><dd>{}</dd></div>", escaped(fact)))
                .collect();
            let toml = toml::to_string(&study.experiment).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(
                html,
                "<dl class=\"facts\">{facts}</dl><details id=\"{}\"><summary>experiment.toml</summary>\
                 <pre>{}</pre></details>",
                self.id(&format!("settings-{at}")),
                escaped(&toml)
            );
        }
        let folders: Vec<String> =
            evidence.folders.iter().map(|folder| folder.display().to_string()).collect();
        let _ = writeln!(
            html,
            "<pre>nextpair run experiment.toml --out EXPERIMENT\nnextpair report {}</pre>\
             <p class=\"note\">The same experiment gives the same numbers, whatever the number of \
             threads. Every number of this page is in results.json, every measurement in \
             results.csv, every chart in a .svg and a .png file beside it.</p>",
            escaped(&folders.join(" "))
        );
        self.section("making", "How it was made", &html);
    }
}

/// Describes the versions and vector units that made an experiment. The page mentions it if there
/// are several, because their last digits may differ.
fn makers(study: &Study) -> String {
    let mut names = vec![format!("nextpair {} on {}", study.manifest.version, study.manifest.unit)];
    for origin in study.rounds.iter().flat_map(|round| &round.made_by) {
        let name = origin.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.len() {
        1 => names.remove(0),
        _ => format!("mixed: {}", names.join(", then ")),
    }
}
