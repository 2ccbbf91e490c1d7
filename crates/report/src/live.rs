//! Reports of experiments that are running, for whoever serves them: the page of a report, with a line on top that
//! says what is going on, and a script that takes new parts in (`assets/live.js`).

use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Activity, Standing, Step, Study};
use serde_json::{Value, json};

use crate::memory::Memory;
use crate::page::escaped;
use crate::words::counted;
use crate::{Error, Options, about, analysed, compose};

/// A report that is made again and again. It keeps what takes long to make, such as maps and pictures.
pub struct LiveReport {
    options: Options,
    memory: Memory,
}

impl LiveReport {
    /// Returns a report with these settings. Experiments are not compared.
    pub fn new(options: Options) -> Self {
        LiveReport { options: Options { compare: false, ..options }, memory: Memory::default() }
    }

    /// Returns the page of an experiment. `version` tells it from earlier ones.
    ///
    /// # Errors
    /// If the settings are wrong, or the experiment cannot be read.
    pub fn page(&self, study: &Study, version: u64) -> Result<String, Error> {
        let studies = std::slice::from_ref(study);
        let about = about(studies, &self.options)?;
        let studies = about.as_deref().unwrap_or(studies);
        let analysis = analysed(studies, &self.options)?;
        let line = line(study, version);
        Ok(compose(studies, analysis, &self.options, &self.memory, Some(&line), &())?.html)
    }
}

/// Returns what a page is told when it asks for news. The page of this version is the one to show; `last` says that
/// no other will follow.
pub fn live_news(study: &Study, standing: &Standing, version: u64, last: bool) -> Value {
    json!({
        "version": version,
        "last": last,
        "activity": name(standing.activity),
        "now": in_words(standing, study),
        "done": standing.done,
        "all": standing.all,
    })
}

/// Returns the line on top of the page.
fn line(study: &Study, version: u64) -> String {
    let standing = study.standing();
    let finished = standing.activity == Activity::Finished;
    format!(
        "<aside class=\"live\" id=\"live\" aria-label=\"Progress\" data-version=\"{version}\" \
         data-activity=\"{}\" data-last=\"{finished}\"><p id=\"live-now\">{}</p>\
         <progress id=\"live-done\" max=\"{}\" value=\"{}\" aria-label=\"Trainings done\"></progress>\
         <p id=\"live-said\" class=\"hidden\" role=\"status\"></p>\
         <noscript><p>Without scripts this page stays as it is: reload it for news.</p></noscript></aside>\n",
        name(standing.activity),
        escaped(&in_words(&standing, study)),
        standing.all,
        standing.done
    )
}

fn name(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "running",
        Activity::Waiting(_) => "waiting",
        Activity::Stopped => "stopped",
        Activity::Finished => "finished",
    }
}

fn in_words(standing: &Standing, study: &Study) -> String {
    let Standing { activity, done, all, begun, seconds_left } = standing;
    let trainings = format!("{} of {} done", grouped(*done), counted(*all, "training"));
    let folder = study.folder.path().display();
    match activity {
        Activity::Finished => format!("Finished: all {} are done.", counted(*all, "training")),
        Activity::Waiting(round) => {
            format!(
                "Round {round} waits for people; `nextpair annotate {folder}` asks them. {trainings}."
            )
        }
        Activity::Stopped => format!(
            "Stopped: no process of this machine works on it. `nextpair run {folder} --resume` goes \
             on. {trainings}."
        ),
        Activity::Running => {
            let now = match &begun[..] {
                [] => "Getting ready".to_owned(),
                [step] => doing(step, study),
                [step, others @ ..] => {
                    format!(
                        "{}, and {} beside it",
                        doing(step, study),
                        counted(others.len(), "other")
                    )
                }
            };
            let left =
                seconds_left.map_or(String::new(), |left| format!(", {} left", about_time(left)));
            format!("{now}. {trainings}{left}.")
        }
    }
}

fn doing(step: &Step, study: &Study) -> String {
    let Step { seed, strategy, round, epochs } = step;
    let all = study.experiment.training.epochs;
    let lane = match strategy {
        Some(strategy) => {
            format!("{strategy}, seed {seed}, round {round} of {}", study.experiment.rounds)
        }
        None => format!("all strategies, seed {seed}, before the first batch"),
    };
    match epochs {
        done if *done < all => format!("Training {lane}: epoch {} of {all}", done + 1),
        _ => format!("Testing {lane}"),
    }
}

/// Formats a time that is not known exactly: about 40 s, about 7 min, about 2 h 10 min.
fn about_time(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 | 1 => format!("about {} s", 10 * (seconds / 10.0).ceil().max(1.0) as u64),
        2..90 => format!("about {minutes} min"),
        _ => {
            let fives = (seconds / 300.0).round() as u64;
            format!("about {} h {:02} min", fives / 12, 5 * (fives % 12))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn times_are_rounded() {
        let shown = [0.0, 41.0, 89.0, 91.0, 3000.0, 5400.0, 9000.0].map(about_time);
        let expected = ["10 s", "50 s", "90 s", "2 min", "50 min", "1 h 30 min", "2 h 30 min"];
        assert_eq!(shown, expected.map(|time| format!("about {time}")));
    }

    #[test]
    fn the_line_says_what_is_going_on() {
        let fixture = Fixture::default();
        let study = fixture.study();
        let arm = study.experiment.strategies[1];
        let first = Step { seed: 2, strategy: Some(arm), round: 1, epochs: 4 };
        let other = Step { seed: 0, strategy: None, round: 0, epochs: 40 };
        let mut standing = Standing {
            activity: Activity::Running,
            done: 7,
            all: 39,
            begun: vec![first, other.clone()],
            seconds_left: Some(700.0),
        };
        assert_eq!(
            in_words(&standing, &study),
            "Training hard-negative, seed 2, round 1 of 3: epoch 5 of 40, and 1 other beside it. 7 of 39 \
             trainings done, about 12 min left."
        );
        standing.begun = vec![other];
        assert!(in_words(&standing, &study).starts_with("Testing all strategies, seed 0, before"));
        standing.activity = Activity::Finished;
        assert_eq!(in_words(&standing, &study), "Finished: all 39 trainings are done.");
    }

    #[test]
    fn it_is_the_page_of_a_report_with_a_line_on_top() {
        let fixture = Fixture::default();
        let study = fixture.study();
        let out = fixture.study().folder.path().join("report");
        crate::write(std::slice::from_ref(&study), &Options::default(), &out, &()).unwrap();
        let report = std::fs::read_to_string(out.join("report.html")).unwrap();
        let live = LiveReport::new(Options::default()).page(&study, 3).unwrap();
        let main = |page: &str| {
            let from = page.find("<main").unwrap();
            page[from..page.find("</main>").unwrap()].to_owned()
        };
        assert_eq!(main(&live), main(&report));
        assert!(live.contains("data-version=\"3\"") && live.contains("data-last=\"true\""));
        assert!(!report.contains("id=\"live\"") && !report.contains("fetch("));

        let mut empty = study;
        empty.rounds.clear();
        let page = LiveReport::new(Options::default()).page(&empty, 0).unwrap();
        for part in ["What was tried", "0 of 39 trainings done", "data-last=\"false\""] {
            assert!(page.contains(part), "{part}");
        }
    }
}
