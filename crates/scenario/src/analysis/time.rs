//! Time of experiments by phase.

use serde::Serialize;

use crate::Round;

/// Phases that count as work. Everything else is overhead.
const WORK: [&str; 3] = ["training", "selection", "evaluation"];

/// Time by phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Time {
    /// Total seconds.
    pub seconds: f64,
    /// Phases, longest first.
    pub phases: Vec<PhaseTime>,
    /// Percentage of time outside training, selection and evaluation.
    pub overhead: Option<f64>,
}

/// Time and memory of a phase over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseTime {
    /// The name of the phase.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Percentage of the total time.
    pub share: f64,
    /// Peak memory of the process during the phase, in bytes, if known.
    pub memory: Option<u64>,
}

impl Time {
    pub(super) fn of<'a>(rounds: impl Iterator<Item = &'a Round>) -> Self {
        let mut phases: Vec<PhaseTime> = Vec::new();
        for phase in rounds.flat_map(|round| &round.phases) {
            let at = phases.iter().position(|known| known.name == phase.name);
            let at = at.unwrap_or_else(|| {
                let name = phase.name.clone();
                phases.push(PhaseTime { name, seconds: 0.0, share: 0.0, memory: None });
                phases.len() - 1
            });
            phases[at].seconds += phase.seconds;
            phases[at].memory = phases[at].memory.max(phase.memory);
        }
        let seconds: f64 = phases.iter().map(|phase| phase.seconds).sum();
        if seconds > 0.0 {
            phases.iter_mut().for_each(|phase| phase.share = 100.0 * phase.seconds / seconds);
        }
        phases.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        let other = phases.iter().filter(|phase| !WORK.contains(&phase.name.as_str()));
        let overhead = (seconds > 0.0).then(|| other.map(|phase| phase.share).sum());
        Time { seconds, phases, overhead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;
    use crate::fixture::round;

    #[test]
    fn overhead_is_what_is_not_work() {
        let phase = |name: &str, seconds, memory| Phase { name: name.to_owned(), seconds, memory };
        let mut one = round(0, None, 0, 10, 5.0);
        one.phases = vec![phase("training", 60.0, Some(7)), phase("other", 2.0, None)];
        let mut two = one.clone();
        two.phases = vec![
            phase("training", 30.0, Some(9)),
            phase("evaluation", 5.0, None),
            phase("selection", 2.0, None),
            phase("annotation", 1.0, None),
        ];
        let time = Time::of([&one, &two].into_iter());
        assert_eq!((time.seconds, time.overhead), (100.0, Some(3.0)));
        let names: Vec<&str> = time.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["training", "evaluation", "other", "selection", "annotation"]);
        assert_eq!((time.phases[0].share, time.phases[0].memory), (90.0, Some(9)));
        assert_eq!(Time::of([].into_iter()).overhead, None);
    }
}
