//! Which models of a round train together: `ensembles.jsonl`, a line for each ensemble.
//!
//! What a model learns may depend, in the last digits, on how many train together. So an ensemble is
//! written down before it trains, and who has to train again does so among the same.

use std::path::Path;
use std::sync::MutexGuard;

use nextpair_data::{AtomicFile, ordinary};
use nextpair_models::members_at_most;
use serde::{Deserialize, Serialize};

use super::Scenario;
use super::lane::Lane;
use crate::{Arm, Error};

/// Models that train together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ensemble {
    round: usize,
    members: Vec<Name>,
}

/// The lane of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    seed: u64,
    /// The strategy; none in round 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<Arm>,
}

impl Name {
    fn of(lane: &Lane<'_>) -> Self {
        Name { seed: lane.seed, strategy: lane.strategy.copied() }
    }
}

impl Scenario {
    /// Divides the lanes of a round into those that train together, given those that have to train. Returns
    /// ensembles with at least one of these, as positions in `lanes`; new ones are written down.
    pub(super) fn ensembles(
        &self,
        lanes: &[MutexGuard<'_, Lane<'_>>],
        round: usize,
        open: &[usize],
    ) -> Result<Vec<Vec<usize>>, Error> {
        if !self.trains_together() {
            return Ok(open.iter().map(|&at| vec![at]).collect());
        }
        let path = self.folder.ensembles();
        let mut known = read(&path)?;
        let place = |name: &Name| lanes.iter().position(|lane| Name::of(lane) == *name);
        // Of an experiment that has lost lanes since, some cannot be repeated.
        let whole = |ensemble: &&Ensemble| ensemble.round == round;
        let positions = |ensemble: &Ensemble| {
            ensemble.members.iter().map(place).collect::<Option<Vec<usize>>>()
        };
        // Whoever is named twice trained last in the last.
        let mut found: Vec<Vec<usize>> = Vec::new();
        for members in known.iter().filter(whole).rev().filter_map(positions) {
            let new = |at: &usize| open.contains(at) && !found.iter().any(|own| own.contains(at));
            if members.iter().any(new) {
                found.push(members);
            }
        }
        found.reverse();
        let alone = |at: &&usize| !found.iter().any(|members| members.contains(at));
        let alone: Vec<usize> = open.iter().filter(alone).copied().collect();
        let new = self.divided(lanes, &alone)?;
        if !new.is_empty() {
            known.extend(new.iter().map(|members| Ensemble {
                round,
                members: members.iter().map(|&at| Name::of(&lanes[at])).collect(),
            }));
            write(&path, &known)?;
        }
        found.extend(new);
        Ok(found)
    }

    /// Divides lanes into ensembles of equal sizes that a device has room for.
    fn divided(
        &self,
        lanes: &[MutexGuard<'_, Lane<'_>>],
        which: &[usize],
    ) -> Result<Vec<Vec<usize>>, Error> {
        let mut alike: Vec<Vec<usize>> = Vec::new();
        for &at in which {
            let fits = |members: &&mut Vec<usize>| {
                let (first, own) = (&lanes[members[0]], &lanes[at]);
                let pairs = first.known.pairs.len() == own.known.pairs.len();
                pairs && first.corpus().shares_features(own.corpus())
            };
            match alike.iter_mut().find(fits) {
                Some(members) => members.push(at),
                None => alike.push(vec![at]),
            }
        }
        let mut all = Vec::new();
        for members in alike {
            let corpus = lanes[members[0]].corpus();
            let sizes = (corpus.regions(), self.experiment.training.batch);
            let (model, device) = (&self.experiment.model, self.options.device);
            let most = members_at_most(model, corpus.inputs(), sizes, device)?;
            let parts = members.len().div_ceil(most);
            all.extend(members.chunks(members.len().div_ceil(parts)).map(<[usize]>::to_vec));
        }
        Ok(all)
    }
}

fn read(path: &Path) -> Result<Vec<Ensemble>, Error> {
    let text = ordinary::read_if_there(path)?.unwrap_or_default();
    let text = String::from_utf8(text).map_err(|_| Error::file(path, "not UTF-8"))?;
    let line = |(at, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|e| Error::line(path, at + 1, format!("not an ensemble: {e}")))
    };
    text.lines().enumerate().map(line).collect()
}

fn write(path: &Path, all: &[Ensemble]) -> Result<(), Error> {
    let mut bytes = Vec::new();
    for ensemble in all {
        let line = serde_json::to_vec(ensemble).map_err(|e| Error::file(path, e.to_string()))?;
        bytes.extend(line);
        bytes.push(b'\n');
    }
    Ok(AtomicFile::write_whole(path, &bytes)?)
}
